//===- Dequantize.cpp - Weights out of their blocks -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/PlanEnums.h"
#include "passes/emit/ProgramEmitter.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::emit(DequantizeOp op, ProgramEmitter &emitter) {
  plan::DequantizeT body;
  body.input = emitter.idOf(op.getBlocks());
  body.kind = toPlan(op.getKind());
  return emitter.addComputed(std::move(body), op);
}
