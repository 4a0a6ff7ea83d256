//===- PackTensors.cpp - Tensors side by side -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

#include "plan/Shape.h"

using namespace fsdp;

void fsdp::listOperands(const plan::PackTensorsT &op, Operands &operands) {
  operands.add(Access::read, op.inputs);
  operands.add(Access::define, op.output);
}

void fsdp::verify(const plan::PackTensorsT &op, const ProgramCheck &check) {
  const plan::ValueT &output = check.value(op.output);
  if (output.shape.size() != 1 || !output.strides.empty() ||
      !check.isPlace(op.output))
    check.refuse("packs into " + check.name(op.output) +
                 ", which is no row of elements");
  if (op.offsets.size() != op.inputs.size())
    check.refuse("has not one offset for each input");
  auto room = static_cast<uint64_t>(output.shape[0]);
  uint64_t end = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const plan::ValueT &input = check.value(op.inputs[i]);
    uint64_t count = *checkedElements(input.shape);
    if (input.dtype != output.dtype || op.offsets[i] < end ||
        op.offsets[i] > room || count > room - op.offsets[i])
      check.refuse("has no place for " + check.name(op.inputs[i]) + " in " +
                   check.name(op.output));
    end = op.offsets[i] + count;
  }
}

InstructionText fsdp::print(const plan::PackTensorsT &op,
                            const ProgramText &text) {
  return {text.definition(op.output), "pack",
          " " + text.uses(op.inputs) + " at [" +
              join(op.offsets, [](uint64_t at) { return std::to_string(at); }) +
              "]"};
}
