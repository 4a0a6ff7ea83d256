//===- Accumulate.cpp - The sum of micro-batches' gradients ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/ProgramEmitter.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::emit(AccumulateOp op, ProgramEmitter &emitter) {
  bool grows = emitter.liveness.getStorage(op.getResult()) ==
               emitter.liveness.getStorage(op.getInto());
  if (failed(emitter.makeView(op.getResult(),
                              grows ? op.getInto() : op.getGradient())))
    return failure();
  plan::AccumulateT body;
  body.gradient = emitter.idOf(op.getGradient());
  body.into = emitter.idOf(op.getInto());
  body.output = emitter.idOf(op.getResult());
  body.divisor = static_cast<uint32_t>(op.getDivisor().value_or(1));
  body.tree = op.getTree();
  return emitter.add(std::move(body), op.getLoc());
}
