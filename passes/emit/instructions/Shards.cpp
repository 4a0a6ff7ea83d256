//===- Shards.cpp - What a rank holds of a tensor -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/ProgramEmitter.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::emit(ZeroPaddingOp op, ProgramEmitter &emitter) {
  plan::ZeroPaddingT body;
  body.value = emitter.idOf(op.getTensor());
  body.dim = static_cast<int32_t>(op.getDim());
  body.group = emitter.context.getGroup(op.getGroup());
  return emitter.add(std::move(body), op.getLoc());
}

LogicalResult fsdp::emit(ShardOp op, ProgramEmitter &emitter) {
  plan::ShardT body;
  body.input = emitter.idOf(op.getFull());
  body.dim = static_cast<int32_t>(op.getDim());
  body.group = emitter.context.getGroup(op.getGroup());
  return emitter.addComputed(std::move(body), op);
}

LogicalResult fsdp::emit(SelectRowsOp op, ProgramEmitter &emitter) {
  plan::SelectRowsT body;
  body.input = emitter.idOf(op.getInput());
  body.dim = static_cast<int32_t>(op.getDim());
  body.group = emitter.context.getGroup(op.getGroup());
  body.starts.assign(op.getStarts().begin(), op.getStarts().end());
  return emitter.addComputed(std::move(body), op);
}
