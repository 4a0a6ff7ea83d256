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
  body.block_size = static_cast<uint32_t>(op.getBlockSize());
  body.double_quant = op.getDoubleQuant();
  return emitter.addComputed(std::move(body), op);
}
