//===- GroupedProducts.cpp - Products of groups without the host ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/GroupedProducts.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

using at::Tensor;

int64_t fsdp::meta::getAlignment(at::ScalarType type) {
  return std::max<int64_t>(1, 16 / int64_t(c10::elementSize(type)));
}

bool fsdp::meta::isAligned(const Tensor &matrices) {
  int64_t alignment = getAlignment(matrices.scalar_type());
  int64_t rows = matrices.size(-2), columns = matrices.size(-1);
  int64_t rowStride = matrices.stride(-2), columnStride = matrices.stride(-1);
  if (rowStride == 1 && columnStride >= std::max<int64_t>(1, rows))
    return columnStride % alignment == 0;
  return columnStride == 1 && rowStride >= std::max<int64_t>(1, columns) &&
         rowStride % alignment == 0;
}

bool fsdp::meta::isGrouped(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

void fsdp::meta::checkGroups(const Tensor &self, const Tensor &other,
                             const std::optional<Tensor> &offsets,
                             const std::optional<Tensor> &bias,
                             std::optional<at::ScalarType> dtype) {
  bool isRows = self.dim() == 2, isColumns = other.dim() == 2;
  TORCH_CHECK((isRows || self.dim() == 3) && (isColumns || other.dim() == 3),
              "expected matrices of 2 or 3 dims, found ", self.dim(), " and ",
              other.dim());
  TORCH_CHECK(isGrouped(self.scalar_type()) && isGrouped(other.scalar_type()),
              "expected matrices of float32, bfloat16 or float16, found ",
              self.scalar_type(), " and ", other.scalar_type());
  // What two matrices have beyond the last group is left out.
  TORCH_CHECK((isRows && isColumns) || self.size(-1) == other.size(-2),
              "expected as many columns as the second matrix has rows, found ",
              self.size(-1), " and ", other.size(-2));
  TORCH_CHECK(isAligned(self) && isAligned(other),
              "strides should be multiple of 16 bytes");
  TORCH_CHECK(!bias || !bias->defined(), "expected no bias");
  TORCH_CHECK(offsets.has_value() == (isRows || isColumns),
              "expected offsets where a matrix has 2 dims, and only there");
  TORCH_CHECK(!offsets ||
                  (offsets->dim() == 1 && offsets->scalar_type() == at::kInt),
              "expected offsets of 1 dim in int32");
  TORCH_CHECK(!dtype || *dtype == self.scalar_type(),
              "expected a result of the first matrix' dtype, found ", *dtype);
  if (isRows != isColumns || !isRows)
    TORCH_CHECK((isRows ? offsets->size(0) : self.size(0)) ==
                    (isColumns ? offsets->size(0) : other.size(0)),
                "expected as many matrices as there are groups");
}

bool fsdp::meta::isFasterWhole(const Tensor &self, const Tensor &other,
                               const Tensor &offsets) {
  // The host waits for some hundredths of a millisecond.
  constexpr int64_t kMultiplications = int64_t(1) << 29;
  const Target &target = getTarget();
  bool isOneKernel = self.scalar_type() == at::kBFloat16 &&
                     other.scalar_type() == at::kBFloat16 &&
                     (target.getMajor() == 9 || target.getMajor() == 10);
  if (!isForCuda() || isOneKernel)
    return false;
  int64_t groups = offsets.size(0), rows = self.size(-2);
  return rows * self.size(-1) * other.size(-1) * groups <= kMultiplications;
}

Tensor fsdp::meta::multiplyWhole(const Tensor &self, const Tensor &other,
                                 const Tensor &offsets) {
  bool isRows = other.dim() == 3, isColumns = self.dim() == 3;
  int64_t count = isRows      ? self.size(0)
                  : isColumns ? other.size(1)
                              : self.size(1);
  // Of each row, column or summand the group.
  Tensor groups = at::searchsorted(
      offsets, at::arange(count, offsets.options()), /*out_int32=*/false,
      /*right=*/true);
  int64_t last = offsets.size(0);
  if (!isRows && !isColumns) {
    // Masked on both sides: no number of another group times 0 may be a NaN.
    Tensor zero = at::scalar_tensor(0, self.options());
    std::vector<Tensor> sums;
    for (int64_t group = 0; group < last; ++group) {
      Tensor isOwn = groups.eq(group);
      sums.push_back(at::mm(at::where(isOwn, self, zero),
                            at::where(isOwn.unsqueeze(1), other, zero)));
    }
    return at::stack(sums);
  }
  Tensor result =
      at::zeros({self.size(isColumns ? 1 : 0), other.size(isRows ? 2 : 1)},
                self.options());
  for (int64_t group = 0; group < last; ++group) {
    Tensor isOwn = groups.eq(group);
    result = at::where(isRows ? isOwn.unsqueeze(1) : isOwn,
                       at::mm(isColumns ? self.select(0, group) : self,
                              isRows ? other.select(0, group) : other),
                       result);
  }
  return result;
}

bool fsdp::meta::needsWholeProducts(const c10::OperatorHandle &op,
                                    const torch::jit::Stack &stack) {
  if (op.operator_name().name != "aten::_grouped_mm" ||
      !op.operator_name().overload_name.empty())
    return false;
  const c10::IValue *arguments = stack.data() + stack.size() - 5;
  if (!arguments[2].isTensor() || !arguments[2].toTensor().defined())
    return false;
  const Tensor &self = arguments[0].toTensor(),
               &other = arguments[1].toTensor(),
               &offsets = arguments[2].toTensor();
  // Whose result lies as the operator's does.
  bool isOfMatrices = std::min(self.dim(), other.dim()) == 2 &&
                      std::max(self.dim(), other.dim()) <= 3;
  return isOfMatrices && offsets.dim() == 1 &&
         self.size(-1) == other.size(-2) &&
         self.scalar_type() == other.scalar_type() &&
         other.size(-1) % getAlignment(self.scalar_type()) == 0 &&
         isFasterWhole(self, other, offsets);
}

void fsdp::meta::callWholeProducts(const c10::OperatorHandle &op,
                                   torch::jit::Stack &stack) {
  size_t base = stack.size() - op.schema().arguments().size();
  const Tensor &self = stack[base].toTensor(),
               &other = stack[base + 1].toTensor(),
               &offsets = stack[base + 2].toTensor();
  checkGroups(self, other, offsets, stack[base + 3].toOptional<Tensor>(),
              stack[base + 4].toOptional<at::ScalarType>());
  Tensor result = multiplyWhole(self, other, offsets);
  torch::jit::drop(stack, op.schema().arguments().size());
  stack.push_back(std::move(result));
}
