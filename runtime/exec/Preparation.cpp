//===- Preparation.cpp - What instructions are prepared from --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Instructions.h"
#include "runtime/exec/Instruction.h"
#include "support/Error.h"

using namespace fsdp;

char *Preparation::place(uint32_t value) const {
  char *address = shared ? shared->addressOf(program, value) : nullptr;
  if (address)
    return address;
  const plan::ValueT &v = *program.values[value];
  return arenas.of(v.memory).at(v.offset);
}

bool Preparation::isBeside(uint32_t value) const {
  return program.values[rootOf(program, value)]->memory ==
         plan::MemorySpace::host;
}

std::pair<char *, uint64_t> Preparation::room(uint32_t value) const {
  uint32_t root = rootOf(program, value);
  const plan::ValueT &v = *program.values[root];
  if (v.place == plan::Place::literal)
    return {nullptr, 0};
  return {place(root), v.bytes};
}

std::unique_ptr<Instruction>
fsdp::prepareInstruction(Preparation &preparation,
                         const plan::InstructionT &instruction) {
  std::unique_ptr<Instruction> prepared;
  if (!visitBody(instruction,
                 [&](const auto &op) { prepared = prepare(preparation, op); }))
    throw Error(ErrorId::ArtifactCorrupted, "an instruction has no known kind");
  return prepared;
}
