//===- Phases.cpp - Forward, backward, optimizer --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Phases.h"

#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Optimizers.h"
#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

/// A copy of the loss or another output that planning has put behind the step:
/// in front of the metrics' transfer, or of the return.
static bool isResultCopy(Operation *op) {
  return op->getName().getStringRef() == "aten.clone" &&
         llvm::all_of(op->getUsers(), [](Operation *user) {
           return isStart(user) || user->hasTrait<OpTrait::IsTerminator>();
         });
}

SmallVector<Phase, 3> fsdp::getPhases(func::FuncOp program) {
  ForwardSlice forward(program);
  int64_t count = 0, backward = 0, optimizer = -1;
  for (Operation &op : program.getBody().front()) {
    if (optimizer < 0 && getOptimizerUpdate(&op))
      optimizer = count;
    ++count;
    if (forward.contains(&op) && !isCollective(&op) && !isa<WaitOp>(op) &&
        !isResultCopy(&op))
      backward = count;
  }
  // The terminator alone is no backward.
  if (isInference(program) || (optimizer < 0 && backward + 1 >= count))
    return {{"forward", -1, count}};
  if (optimizer < 0)
    return {{"forward", -1, backward}, {"backward", backward, count}};
  return {{"forward", -1, backward},
          {"backward", backward, optimizer},
          {"optimizer", optimizer, count}};
}
