//===- ForwardSlice.cpp - Where forward ends ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/ForwardSlice.h"

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/Outputs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"

using namespace mlir;
using namespace fsdp;

static bool isForwardResult(func::FuncOp func, StateTable &states,
                            unsigned index) {
  if (auto name = func.getResultAttrOfType<StringAttr>(index, kOutputAttr))
    return name.getValue() != kGradNormOutput;
  StateOp state = states.lookup(
      func.getResultAttrOfType<FlatSymbolRefAttr>(index, kStateAttr));
  // Of micro-batches but the last: sums of what is returned.
  return state &&
         (state.getRole() == Role::Buffer || state.getRole() == Role::Scalar);
}

ForwardSlice::ForwardSlice(func::FuncOp func) {
  StateTable states(func->getParentOfType<ModuleOp>());
  SmallVector<Value> worklist;
  Block &body = func.getBody().front();
  for (OpOperand &operand : body.getTerminator()->getOpOperands())
    if (isForwardResult(func, states, operand.getOperandNumber()))
      worklist.push_back(operand.get());
  while (!worklist.empty()) {
    auto result = dyn_cast<OpResult>(worklist.pop_back_val());
    if (!result)
      continue;
    // A wait's result needs one member of the transfer only: loss and gradient
    // norm share one, but the norm is no part of forward.
    if (Value member = getTransferred(result)) {
      slice.insert(result.getOwner());
      worklist.push_back(member);
    } else if (slice.insert(result.getOwner()).second) {
      llvm::append_range(worklist, result.getOwner()->getOperands());
    }
  }
  // The metrics' transfer stands at the end of the step.
  for (Operation &op : body)
    if (slice.contains(&op) && !isa<CollectiveOpInterface>(op) &&
        !isa<CopyOp, CopyStartOp, WaitOp>(op))
      last = &op;
}
