//===- Packs.cpp - Many tensors in one, and back --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/TensorBuilders.h"
#include "passes/emit/ProgramEmitter.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::emit(PackOp op, ProgramEmitter &emitter) {
  plan::PackTensorsT body;
  body.inputs = emitter.idsOf(op.getInputs());
  body.offsets.assign(op.getOffsets().begin(), op.getOffsets().end());
  return emitter.addComputed(std::move(body), op);
}

/// To the runtime a member is a view like any other.
LogicalResult fsdp::emit(UnpackOp op, ProgramEmitter &emitter) {
  OpBuilder builder(op.getContext());
  OwningOpRef<Operation *> view =
      buildView(builder, op.getLoc(), op.getPacked(), int64_t(op.getOffset()),
                cast<RankedTensorType>(op.getResult().getType()))
          .getDefiningOp();
  return emitter.addCall(*view, op->getResults());
}
