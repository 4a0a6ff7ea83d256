//===- ProgramText.cpp - Instructions as text -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramText.h"

using namespace fsdp;
using plan::Place;

ProgramText::ProgramText(const plan::PlanT &plan, const plan::ProgramT &program)
    : plan(plan), program(program), outputs(program.futures) {
  for (const auto &instruction : program.instructions)
    if (std::optional<Flight> flight = flightOf(*instruction))
      outputs[flight->future] = flight->outputs;
}

InstructionText
ProgramText::print(const plan::InstructionT &instruction) const {
  InstructionText text{"", "?", ""};
  visitBody(instruction,
            [&](const auto &op) { text = fsdp::print(op, *this); });
  return text;
}

std::string ProgramText::definition(int64_t index) const {
  if (index < 0)
    return "_";
  const plan::ValueT &value = *program.values[index];
  std::string text = use(index) + " : " + typeText(value.dtype, value.shape);
  if (!value.strides.empty())
    text += " strides " + toString(value.strides);
  if (value.memory == plan::MemorySpace::host && value.place != Place::view)
    text += " host";
  switch (value.place) {
  case Place::slot:
    return text + " @" + std::to_string(value.offset);
  case Place::view:
    return text + " in " + use(value.base);
  case Place::state:
    return text + " @" + std::to_string(value.offset) + " " +
           state(value.state);
  case Place::literal:
    break;
  }
  return text;
}
