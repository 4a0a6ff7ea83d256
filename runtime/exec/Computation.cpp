//===- Computation.cpp - Calls that are served as observed ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

using namespace fsdp;

/// Where one fails, nothing that it made is held beyond it: it may be from a
/// pool of memory that ends with the failure.
void Computation::computeOrRelease(StepState &state) {
  try {
    compute(state);
  } catch (...) {
    release();
    throw;
  }
}

void Computation::observe(StepState &state) {
  RankMemory::Observation observation(memory);
  computeOrRelease(state);
  slots.assign(observation.requests().size(), {});
  spares.clear();
  assignResults(observation.requests(), slots, spares);
  release();
  observation.placeTemporaries(slots);
  for (size_t i = 0; i < slots.size(); ++i)
    slots[i].asked = observation.requests()[i].bytes;
  --observationsLeft;
  isObserved = true;
}

void Computation::run(StepState &state) {
  if (!isObserved)
    return observe(state);
  RankMemory::Replay replay(memory, slots, spares);
  computeOrRelease(state);
  release();
  // A library that set itself up in the observed call asks for less now.
  if (!replay.isAsObserved() && observationsLeft > 0)
    isObserved = false;
}

std::vector<RankMemory::Bytes> Computation::temporaries() const {
  std::vector<RankMemory::Bytes> found;
  for (const AllocationSlot &slot : slots)
    if (RankMemory::Bytes bytes = memory.scratchOf(slot); !bytes.empty())
      found.push_back(bytes);
  return found;
}
