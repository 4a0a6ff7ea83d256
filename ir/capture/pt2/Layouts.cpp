//===- Layouts.cpp - Strides that an export relies on ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Layouts.h"

#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

using namespace fsdp::capture;

/// Whether a view with those sizes can be had of the tensor.
static bool hasView(const at::Tensor &self, const std::vector<int64_t> &sizes) {
  return at::detail::computeStride(self.sizes(), self.strides(),
                                   at::infer_size_dv(sizes, self.numel()))
      .has_value();
}

/// Whether elements of `bytes`, a multiple of the tensor's own, begin where
/// those do, and lie one behind the other in rows.
static bool hasElements(const at::Tensor &self, int64_t bytes) {
  int64_t own = self.element_size();
  if (own == bytes || self.dim() == 0)
    return true;
  if (self.stride(-1) != 1)
    return false;
  int64_t times = std::max<int64_t>(bytes / own, 1);
  return self.storage_offset() % times == 0 &&
         std::ranges::all_of(
             self.strides().slice(0, self.dim() - 1),
             [&](int64_t stride) { return stride % times == 0; });
}

/// Compares the strides that are numbers; those of dims of at most one element
/// say nothing.
static bool hasStrides(const at::Tensor &self, const json::Object &exported) {
  const json::Array &strides = json::getArray(exported, "strides");
  if (strides.size() != static_cast<size_t>(self.dim()))
    return false;
  for (size_t i = 0; i < strides.size(); ++i)
    if (auto [tag, value] = json::getUnion(strides[i]);
        tag == "as_int" && self.size(i) > 1 &&
        json::asInt(value) != self.stride(i))
      return false;
  return true;
}

void fsdp::capture::fitLayout(const c10::OperatorHandle &op,
                              std::vector<c10::IValue> &stack,
                              const json::Object *exported) {
  const std::string &name = op.operator_name().name;
  bool isView = name == "aten::view",
       isComplex = name == "aten::view_as_complex",
       isStrided = name == "aten::as_strided";
  if ((!isView && !isComplex && !isStrided) || !stack[0].isTensor())
    return;
  const at::Tensor &self = stack[0].toTensor();
  if (isStrided) {
    TORCH_CHECK(!exported || hasStrides(self, *exported),
                "it is given strides of a tensor as it lies on the device of "
                "the export, but on the device to run on it lies otherwise; "
                "call contiguous() in front of it, or export the model on "
                "that device");
    return;
  }
  bool fits =
      isComplex ? hasElements(self, 2 * self.element_size())
      : stack[1].isIntList()
          ? hasView(self, stack[1].toIntVector())
          : hasElements(self, c10::elementSize(stack[1].toScalarType()));
  if (!fits)
    stack[0] = self.contiguous();
}
