//===- Phases.cpp - Forward, backward, optimizer --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Phases.h"

#include "ir/aten/Matchers.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

/// A copy of the loss or another output that planning has put behind the step:
/// in front of the metrics' transfer, or of the return.
static bool isResultCopy(Operation *op) {
  return aten::isClone(op) && llvm::all_of(op->getUsers(), [](Operation *user) {
           return isa<StartOpInterface>(user) ||
                  user->hasTrait<OpTrait::IsTerminator>();
         });
}

static bool updates(Operation &op) {
  if (auto kernel = dyn_cast<KernelOp>(op))
    return !kernel.getBlock().getOps<UpdateOp>().empty();
  return isa<UpdateOp>(op);
}

/// The ops that updates have their gradients from.
static llvm::DenseSet<Operation *> getGradientSources(func::FuncOp program) {
  llvm::DenseSet<Operation *> sources;
  auto add = [&](ValueRange gradients) {
    for (Value gradient : gradients)
      if (Operation *source = gradient.getDefiningOp())
        sources.insert(source);
  };
  for (Operation &op : program.getBody().front())
    if (auto update = dyn_cast<UpdateOp>(op))
      add(update.getGrads());
    else if (updates(op)) // scalars are made for all
      add(llvm::to_vector(
          llvm::make_filter_range(op.getOperands(), [](Value operand) {
            return cast<RankedTensorType>(operand.getType()).getRank() != 0;
          })));
  return sources;
}

SmallVector<Phase, 3> fsdp::getPhases(func::FuncOp program) {
  ForwardSlice forward(program);
  llvm::DenseSet<Operation *> gradients = getGradientSources(program);
  int64_t count = 0, backward = 0, optimizer = -1;
  for (Operation &op : program.getBody().front()) {
    // Updates in backward are part of it.
    if (gradients.contains(&op))
      optimizer = -1;
    if (optimizer < 0 && updates(op))
      optimizer = count;
    ++count;
    if (forward.contains(&op) && !isa<CollectiveOpInterface>(op) &&
        !isa<CopyOp, CopyStartOp, WaitOp>(op) && !isResultCopy(&op))
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
