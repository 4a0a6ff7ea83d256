//===- CopyAcross.cpp - From one of a rank's memories to another ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

using namespace fsdp;

void fsdp::listOperands(const plan::CopyAcrossT &op, Operands &operands) {
  operands.add(Access::read, op.inputs);
  operands.add(Access::define, op.outputs);
}

void fsdp::verify(const plan::CopyAcrossT &op, const ProgramCheck &check) {
  check.enumerator(op.to <= plan::MemorySpace::MAX);
  bool isDown = op.to == plan::MemorySpace::host;
  check.enumerator(op.stream ==
                   (isDown ? plan::Stream::download : plan::Stream::upload));
  if (op.inputs.empty() || op.inputs.size() != op.outputs.size())
    check.refuse("has not one output for each input");
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    check.contiguous(op.inputs[i]);
    if (!check.isPlace(op.outputs[i]) ||
        !check.value(op.outputs[i]).strides.empty())
      check.refuse("copies into " + check.name(op.outputs[i]) +
                   ", which is no slot");
    check.sameType(op.inputs[i], op.outputs[i]);
    if (check.memory(op.inputs[i]) == op.to ||
        check.memory(op.outputs[i]) != op.to)
      check.refuse("copies " + check.name(op.inputs[i]) + " to " +
                   check.name(op.outputs[i]) +
                   ", which do not lie in two memories");
  }
}

InstructionText fsdp::print(const plan::CopyAcrossT &op,
                            const ProgramText &text) {
  return {text.future(op.future), "copy.start",
          " " + quote(op.bucket) + "(" + text.uses(op.inputs) + ") to " +
              plan::EnumNameMemorySpace(op.to) + " on " +
              plan::EnumNameStream(op.stream)};
}
