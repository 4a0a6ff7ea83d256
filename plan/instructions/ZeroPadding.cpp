//===- ZeroPadding.cpp - Zeros behind a tensor's rows ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

#include "plan/Shape.h"

using namespace fsdp;

void fsdp::listOperands(const plan::ZeroPaddingT &op, Operands &operands) {
  operands.add(Access::pad, op.value);
}

void fsdp::verify(const plan::ZeroPaddingT &op, const ProgramCheck &check) {
  const plan::ValueT &v = check.value(op.value);
  if (op.dim != 0 || v.shape.empty() || !v.strides.empty())
    check.refuse("pads " + check.name(op.value) + ", which has no rows");
  int64_t size = check.group(op.group).size;
  check.roomFor(op.value, shardRows(v.shape[0], size) * size);
}

InstructionText fsdp::print(const plan::ZeroPaddingT &op,
                            const ProgramText &text) {
  return {"", "zero_padding", " " + text.use(op.value) + text.over(op.group)};
}
