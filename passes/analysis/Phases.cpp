//===- Phases.cpp - Forward, backward, optimizer --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Phases.h"

#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Optimizers.h"
#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

SmallVector<Phase, 3> fsdp::getPhases(func::FuncOp program) {
  Operation *last = ForwardSlice(program).getLast();
  int64_t count = 0, backward = 0, optimizer = -1;
  for (Operation &op : program.getBody().front()) {
    if (optimizer < 0 && getOptimizerUpdate(&op))
      optimizer = count;
    ++count;
    if (&op == last)
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
