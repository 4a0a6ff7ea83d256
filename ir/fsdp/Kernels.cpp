//===- Kernels.cpp - Operators as one kernel ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

OperandRange KernelOp::getYielded() {
  return cast<YieldOp>(getBlock().getTerminator()).getValues();
}

static LogicalResult compare(KernelOp op, TypeRange inside, TypeRange outside,
                             StringRef what) {
  if (inside == outside)
    return success();
  return op.emitOpError("expects a body that ")
         << what << " (" << outside << "), found (" << inside << ")";
}

static bool isKernelOperator(Operation &op) {
  auto update = dyn_cast<UpdateOp>(op);
  return update ? !update.getRates().empty()
                : isa<ConstantOp>(op) || aten::lookupSchema(&op);
}

// K-1, K-2, K-3.
LogicalResult KernelOp::verify() {
  if (getInPlace().size() != getInputs().size())
    return emitOpError("expects an entry of 'in_place' for each of ")
           << getInputs().size() << " inputs, found " << getInPlace().size();
  Block &block = getBlock();
  if (block.empty() || !isa<YieldOp>(block.back()))
    return emitOpError("expects a body that ends in 'fsdp.yield'");
  if (failed(compare(*this, block.getArgumentTypes(), getInputs().getTypes(),
                     "takes")) ||
      failed(
          compare(*this, getYielded().getTypes(), getResultTypes(), "yields")))
    return failure();
  for (Operation &op : block.without_terminator())
    if (!isKernelOperator(op)) {
      InFlightDiagnostic diagnostic =
          emitOpError("expects operators of 'aten' in its body, or updates "
                      "with rates");
      diagnostic.attachNote(op.getLoc()) << "found this op";
      return diagnostic;
    }
  for (Value value : getYielded())
    if (isa<BlockArgument>(value))
      return emitOpError("yields an input, which needs no kernel");
  return success();
}
