//===- Squares.cpp - Sums of squares, and their root ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/ProgramEmitter.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::emit(SquareSumOp op, ProgramEmitter &emitter) {
  plan::SquareSumT body;
  body.inputs = emitter.idsOf(op.getInputs());
  return emitter.addComputed(std::move(body), op);
}

LogicalResult fsdp::emit(SquareRootOp op, ProgramEmitter &emitter) {
  plan::SquareRootT body;
  body.inputs = emitter.idsOf(op.getSums());
  return emitter.addComputed(std::move(body), op);
}
