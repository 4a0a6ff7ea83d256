//===- GroupedMatrix.cpp - Products of groups of rows ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `_grouped_mm` multiplies groups of rows by a matrix each; where groups end
// stands in a tensor, so all shapes are fixed. Hugging Face's mixtures of
// experts call it, or the library's own `transformers::grouped_mm_fallback`,
// which is registered here as the operators that it stands for.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

using namespace fsdp::meta;

/// Elements in 16 bytes.
static int64_t getAlignment(at::ScalarType type) {
  return std::max<int64_t>(1, 16 / int64_t(c10::elementSize(type)));
}

/// What LibTorch's kernels take (GroupedMMUtils.h): rows or columns that begin
/// at multiples of 16 bytes.
static bool isAligned(const Tensor &matrices) {
  int64_t alignment = getAlignment(matrices.scalar_type());
  int64_t rows = matrices.size(-2), columns = matrices.size(-1);
  int64_t rowStride = matrices.stride(-2), columnStride = matrices.stride(-1);
  if (rowStride == 1 && columnStride >= std::max<int64_t>(1, rows))
    return columnStride % alignment == 0;
  return columnStride == 1 && rowStride >= std::max<int64_t>(1, columns) &&
         rowStride % alignment == 0;
}

static Tensor groupedMm(const Tensor &self, const Tensor &other,
                        const OptionalTensor &offsets, const OptionalTensor &,
                        std::optional<at::ScalarType> dtype) {
  TORCH_CHECK(isAligned(self) && isAligned(other),
              "strides should be multiple of 16 bytes");
  std::vector<int64_t> sizes;
  if (self.dim() == 2 && other.dim() == 2)
    sizes = {offsets->size(0), self.size(0), other.size(1)};
  else if (self.dim() == 2)
    sizes = {self.size(0), other.size(2)};
  else if (other.dim() == 2)
    sizes = {self.size(1), other.size(1)};
  else
    sizes = {self.size(0), self.size(1), other.size(2)};
  at::ScalarType type = dtype.value_or(self.scalar_type());
  int64_t alignment = getAlignment(type);
  std::vector<int64_t> strides(sizes.size(), 1);
  int64_t step = (sizes.back() + alignment - 1) / alignment * alignment;
  for (size_t i = sizes.size() - 1; i-- > 0; step *= sizes[i])
    strides[i] = step;
  return at::empty_strided(sizes, strides, self.options().dtype(type));
}

TORCH_LIBRARY_IMPL(aten, Meta, m) { m.impl("_grouped_mm", groupedMm); }

/// Whether LibTorch's kernel for the target lets the host read where groups end
/// (GroupedBlas.cpp), and all rows times all groups' matrices take less time
/// than that, some hundredths of a millisecond.
static bool isFasterWhole(const Tensor &input, const Tensor &weight) {
  constexpr int64_t kMultiplications = int64_t(1) << 29;
  const fsdp::Target &target = getTarget();
  bool isOneKernel = input.scalar_type() == at::kBFloat16 &&
                     (target.getMajor() == 9 || target.getMajor() == 10);
  return isForCuda() && !isOneKernel &&
         input.size(0) * weight.numel() <= kMultiplications;
}

/// One product of all rows for each group, of which only its own are kept. For
/// operands that the fused operator does not take, or takes longer for.
static Tensor multiplyAll(const Tensor &input, const Tensor &weight,
                          const Tensor &groups) {
  Tensor result = at::zeros({input.size(0), weight.size(2)}, input.options());
  for (int64_t group = 0; group < weight.size(0); ++group)
    result = at::where(groups.eq(group).unsqueeze(1),
                       at::mm(input, weight.select(0, group)), result);
  return result;
}

/// `input` [rows, in], sorted by group, times `weight` [groups, in, out] of
/// each row's group; `offsets` say where groups end. Rows behind the last group
/// give zeros and get zeros as gradients (transformers/integrations/moe.py).
static Tensor groupedMmFallback(const Tensor &input, const Tensor &weight,
                                const Tensor &offsets) {
  Tensor rows = at::arange(input.size(0), offsets.options());
  at::ScalarType type = input.scalar_type();
  bool isFused =
      (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) &&
      weight.scalar_type() == type && isAligned(input) && isAligned(weight) &&
      weight.size(2) % getAlignment(type) == 0 &&
      weight.size(1) % getAlignment(type) == 0 && !isFasterWhole(input, weight);
  if (!isFused)
    return multiplyAll(input, weight,
                       at::searchsorted(offsets, rows, /*out_int32=*/false,
                                        /*right=*/true));
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
