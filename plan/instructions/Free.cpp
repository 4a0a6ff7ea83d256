//===- Free.cpp - The end of lifetimes ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

using namespace fsdp;

void fsdp::listOperands(const plan::FreeT &op, Operands &operands) {
  operands.add(Access::end, op.values);
}

void fsdp::verify(const plan::FreeT &, const ProgramCheck &) {}

InstructionText fsdp::print(const plan::FreeT &op, const ProgramText &text) {
  return {"", "free", " " + text.uses(op.values)};
}
