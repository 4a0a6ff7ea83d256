//===- Computation.cpp - Calls that are served as observed ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include <algorithm>

#include <malloc.h>

using namespace fsdp;

/// What observed calls took from the heap is not needed again: without this the
/// C library keeps the largest result for good.
static void returnHeap(std::span<const ObservedRequest> requests) {
  constexpr size_t kLarge = 1 << 20;
  if (std::ranges::any_of(requests, [](const ObservedRequest &request) {
        return request.bytes >= kLarge;
      }))
    malloc_trim(0);
}

void Computation::observe(StepState &state) {
  RankMemory::Observation observation(memory);
  compute(state);
  slots.assign(observation.requests().size(), {});
  assignResults(observation.requests(), slots);
  release();
  if (memory.isHost())
    returnHeap(observation.requests());
  observation.placeTemporaries(slots);
  for (size_t i = 0; i < slots.size(); ++i)
    slots[i].asked = observation.requests()[i].bytes;
  --observationsLeft;
  isObserved = true;
}

void Computation::run(StepState &state) {
  if (!isObserved)
    return observe(state);
  RankMemory::Replay replay(memory, slots);
  compute(state);
  release();
  // A library that set itself up in the observed call asks for less now.
  if (!replay.isAsObserved() && observationsLeft > 0)
    isObserved = false;
}
