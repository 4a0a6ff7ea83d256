//===- Values.cpp - What needs no instruction, or is no more --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/ProgramEmitter.h"
#include "passes/emit/Types.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::emit(ConstantOp op, ProgramEmitter &emitter) {
  FailureOr<uint32_t> id =
      emitter.makeValue(op.getResult(), plan::Place::literal);
  if (failed(id))
    return failure();
  std::optional<std::vector<uint8_t>> bytes = toBytes(op.getValue());
  if (!bytes)
    return op.emitOpError("has a value that an artifact cannot hold: ")
           << op.getValue();
  plan::ValueT &entry = *emitter.result.values[*id];
  entry.literal = std::move(*bytes);
  entry.wrapped = op.getWrapped();
  return success();
}

LogicalResult fsdp::emit(ReplayOp op, ProgramEmitter &emitter) {
  emitter.makeSame(op.getResult(), op.getInput());
  return success();
}

LogicalResult fsdp::emit(FreeOp op, ProgramEmitter &emitter) {
  plan::FreeT body;
  body.values = emitter.idsOf(op.getTensors());
  return emitter.add(std::move(body), op.getLoc());
}
