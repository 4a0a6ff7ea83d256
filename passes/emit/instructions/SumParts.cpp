//===- SumParts.cpp - Sums of what other ranks gave -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/ProgramEmitter.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::emit(SumPartsOp op, ProgramEmitter &emitter) {
  plan::SumPartsT body;
  body.input = emitter.idOf(op.getParts());
  body.parts = static_cast<uint32_t>(op.getCount());
  if (FloatAttr pre = op.getPreAttr())
    body.pre = pre.getValueAsDouble();
  if (FloatAttr post = op.getPostAttr())
    body.post = post.getValueAsDouble();
  return emitter.addComputed(std::move(body), op);
}
