//===- Shard.cpp - A rank's rows of a replicated value --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

using namespace fsdp;

void fsdp::listOperands(const plan::ShardT &op, Operands &operands) {
  operands.add(Access::read, op.input);
  operands.add(Access::define, op.output);
}

void fsdp::verify(const plan::ShardT &op, const ProgramCheck &check) {
  check.contiguous(op.input);
  const plan::ValueT &output = check.value(op.output);
  if (output.place != plan::Place::slot || !output.strides.empty())
    check.refuse("cuts into " + check.name(op.output) + ", which is no slot");
  if (check.value(op.input).dtype != check.value(op.output).dtype)
    check.refuse("takes rows of " + check.name(op.input) + " into " +
                 check.name(op.output) + ", of another element type");
  check.split(op.input, op.output, op.dim, check.group(op.group));
}

InstructionText fsdp::print(const plan::ShardT &op, const ProgramText &text) {
  return {text.definition(op.output), "shard",
          " " + text.use(op.input) + text.over(op.group)};
}
