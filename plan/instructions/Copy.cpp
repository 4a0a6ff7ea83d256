//===- Copy.cpp - The bytes of another value ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

using namespace fsdp;

void fsdp::listOperands(const plan::CopyT &op, Operands &operands) {
  operands.add(Access::read, op.from);
  operands.add(Access::replace, op.to);
}

void fsdp::verify(const plan::CopyT &op, const ProgramCheck &check) {
  check.sameType(op.from, op.to);
}

InstructionText fsdp::print(const plan::CopyT &op, const ProgramText &text) {
  return {"", "copy", " " + text.use(op.from) + " to " + text.use(op.to)};
}
