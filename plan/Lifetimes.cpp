//===- Lifetimes.cpp - When a program's tensors are in use ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Lifetimes.h"

#include "plan/Instructions.h"

#include <algorithm>

using namespace fsdp;

static constexpr uint32_t kUnknown = UINT32_MAX;

std::vector<Lifetime> fsdp::findLifetimes(const plan::ProgramT &program) {
  auto size = static_cast<uint32_t>(program.instructions.size());
  std::vector<uint32_t> waits(program.futures, size);
  for (uint32_t i = 0; i < size; ++i)
    if (const plan::WaitT *wait = program.instructions[i]->body.AsWait())
      waits[wait->future] = i;

  std::vector<Lifetime> lifetimes;
  std::vector<uint32_t> byRoot(program.values.size(), kUnknown);
  auto use = [&](uint32_t value, uint32_t at) {
    if (uint32_t index = byRoot[rootOf(program, value)]; index != kUnknown)
      lifetimes[index].last = std::max(lifetimes[index].last, at);
  };
  if (size == 0)
    return lifetimes;
  for (const auto &argument : program.arguments)
    if (argument->input != -1 &&
        program.values[argument->value]->place == plan::Place::slot) {
      byRoot[argument->value] = static_cast<uint32_t>(lifetimes.size());
      lifetimes.push_back({argument->value, 0, size - 1, /*isInput=*/true});
    }
  for (uint32_t i = 0; i < size; ++i) {
    const plan::InstructionT &instruction = *program.instructions[i];
    std::optional<Flight> flight = flightOf(instruction);
    uint32_t end = flight ? waits[flight->future] : i;
    for (uint32_t value : valuesOf(instruction, defines))
      if (program.values[value]->place == plan::Place::slot &&
          byRoot[value] == kUnknown) {
        byRoot[value] = static_cast<uint32_t>(lifetimes.size());
        lifetimes.push_back({value, i, i});
      }
    for (uint32_t value : valuesOf(
             instruction, [](Access access) { return access != Access::end; }))
      use(value, std::min(end, size - 1));
  }
  for (const auto &result : program.results)
    if (result->state == -1)
      use(result->value, size - 1);
  return lifetimes;
}
