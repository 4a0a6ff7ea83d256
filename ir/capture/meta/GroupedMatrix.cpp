//===- GroupedMatrix.cpp - Products of groups of rows ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `_grouped_mm` multiplies groups of rows by a matrix each; where groups end
// stands in a tensor, so all shapes are fixed. Hugging Face's mixtures of
// experts call it, or the library's own `transformers::grouped_mm_fallback`,
// which is registered here as the operators that it stands for.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/GroupedProducts.h"
#include "ir/capture/meta/Shapes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>

using namespace fsdp::meta;

static Tensor groupedMm(const Tensor &self, const Tensor &other,
                        const OptionalTensor &offsets,
                        const OptionalTensor &bias,
                        std::optional<at::ScalarType> dtype) {
  checkGroups(self, other, offsets, bias, dtype);
  at::ScalarType type = dtype.value_or(self.scalar_type());
  bool isRows = self.dim() == 2, isColumns = other.dim() == 2;
  std::vector<int64_t> sizes;
  if (isRows && isColumns)
    sizes = {offsets->size(0), self.size(0), other.size(1)};
  else if (isRows)
    sizes = {self.size(0), other.size(2)};
  else if (isColumns)
    sizes = {self.size(1), other.size(1)};
  else
    sizes = {self.size(0), self.size(1), other.size(2)};
  int64_t alignment = getAlignment(type);
  std::vector<int64_t> strides(sizes.size(), 1);
  int64_t step = (sizes.back() + alignment - 1) / alignment * alignment;
  for (size_t i = sizes.size() - 1; i-- > 0; step *= sizes[i])
    strides[i] = step;
  return at::empty_strided(sizes, strides, self.options().dtype(type));
}

TORCH_LIBRARY_IMPL(aten, Meta, m) { m.impl("_grouped_mm", groupedMm); }

/// `input` [rows, in], sorted by group, times `weight` [groups, in, out] of
/// each row's group; `offsets` say where groups end. Rows behind the last group
/// give zeros and get zeros as gradients (transformers/integrations/moe.py).
static Tensor groupedMmFallback(const Tensor &input, const Tensor &weight,
                                const Tensor &offsets) {
  at::ScalarType type = input.scalar_type();
  bool isFused = isGrouped(type) && weight.scalar_type() == type &&
                 isAligned(input) && isAligned(weight) &&
                 weight.size(2) % getAlignment(type) == 0 &&
                 weight.size(1) % getAlignment(type) == 0;
  if (!isFused || isFasterWhole(input, weight, offsets))
    return multiplyWhole(input, weight, offsets);
  Tensor rows = at::arange(input.size(0), offsets.options());
  // The operator leaves what lies behind the last group as it is.
  Tensor isGiven = rows.lt(offsets.select(0, -1)).unsqueeze(1);
  Tensor zero = at::scalar_tensor(0, input.options());
  Tensor product = at::_grouped_mm(at::where(isGiven, input, zero), weight,
                                   offsets.to(at::kInt));
  return at::where(isGiven, product, zero);
}

TORCH_LIBRARY(transformers, m) {
  m.def("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> "
        "Tensor",
        torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                        TORCH_FN(groupedMmFallback)));
}
