//===- Disturbed.cpp - What later readers do not find ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Disturbed.h"

using namespace mlir;
using namespace fsdp;

SmallVector<Value> fsdp::listWritten(UpdateOp update) {
  SmallVector<Value> written;
  for (auto [what, before, after] : update.getUpdates())
    llvm::append_range(written, before);
  llvm::append_range(written, update.getGrads());
  return written;
}

SmallVector<Value> fsdp::listDisturbed(Operation *op) {
  if (isa<FreeOp, AccumulateOp>(op))
    return SmallVector<Value>(op->getOperands());
  if (auto update = dyn_cast<UpdateOp>(op))
    return listWritten(update);
  if (auto start = dyn_cast<StartOpInterface>(op); start && start.isInPlace())
    return SmallVector<Value>(start.getInputs());
  return {};
}
