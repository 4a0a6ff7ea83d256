//===- KernelSums.cpp - Sums over rows that kernels make ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/KernelSums.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

/// Whether a sum is over dims in front of the last one: what it gives lies
/// along columns.
static bool isOverRows(Operation *op) {
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  auto dims = dyn_cast_or_null<ArrayAttr>(aten::getStaticArgument(op, "dim"));
  if (!dims || type.getRank() == 0)
    return false; // of everything: one number
  return llvm::none_of(dims.getAsRange<IntegerAttr>(), [&](IntegerAttr dim) {
    return dim.getInt() == -1 || dim.getInt() == type.getRank() - 1;
  });
}

static bool isRowSum(OpResult result) {
  Operation *op = result.getOwner();
  StringRef name = op->getName().getStringRef();
  if (name == "aten.native_layer_norm_backward" ||
      name == "aten._fused_rms_norm_backward")
    return result.getResultNumber() > 0;
  return name == "aten.sum.dim_IntList" && isOverRows(op);
}

int64_t fsdp::getKernelScratch(Operation *op, int64_t rows) {
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel)
    return 0;
  constexpr int64_t kNumber = sizeof(float);
  int64_t bytes = 0;
  for (Value yielded : kernel.getYielded()) {
    auto result = dyn_cast<OpResult>(yielded);
    while (result)
      if (Value source = aten::getViewSource(result))
        result = dyn_cast<OpResult>(source);
      else
        break;
    if (result && isRowSum(result))
      bytes += rows * kNumber *
               cast<RankedTensorType>(result.getType()).getNumElements();
  }
  return bytes;
}
