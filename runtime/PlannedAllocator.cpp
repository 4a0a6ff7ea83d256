//===- PlannedAllocator.cpp - Operators write where the plan says ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/PlannedAllocator.h"

#include "runtime/Arena.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <mutex>

#include <malloc.h>

using namespace fsdp;

static thread_local RankMemory *currentMemory = nullptr;

namespace fsdp {

class PlannedAllocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &releaseAny; }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    base->copy_data(to, from, bytes);
  }

private:
  /// The memory belongs to an arena.
  static void releaseNothing(void *) {}
  static void releaseHeap(void *pointer);
  /// oneDNN frees raw pointers through whichever allocator is installed, and
  /// may have been served from an arena.
  static void releaseAny(void *pointer) {
    if (!Arena::anyContains(pointer))
      releaseHeap(pointer);
  }

  c10::DataPtr heap(size_t bytes) {
    void *pointer = base->raw_allocate(bytes);
    return {pointer, pointer, &releaseHeap, c10::Device(c10::kCPU)};
  }

  c10::Allocator *const base = c10::GetCPUAllocator();
};

static PlannedAllocator &plannedAllocator() {
  // Never destroyed: storages keep its address.
  static PlannedAllocator &instance = *new PlannedAllocator;
  return instance;
}

c10::DataPtr PlannedAllocator::allocate(size_t bytes) {
  RankMemory *memory = currentMemory;
  if (!memory || memory->mode == RankMemory::Mode::off || bytes == 0)
    return heap(bytes);
  if (memory->mode == RankMemory::Mode::observe) {
    c10::DataPtr data = heap(bytes);
    memory->events.push_back({memory->requests.size(), false});
    memory->requests.push_back({data.get(), bytes});
    return data;
  }
  size_t index = memory->next++;
  if (index < memory->slots.size()) {
    const AllocationSlot &slot = memory->slots[index];
    if (slot.address && bytes <= slot.room)
      return {slot.address, slot.address, &releaseNothing,
              c10::Device(c10::kCPU)};
  }
  c10::DataPtr data = heap(bytes);
  memory->current += static_cast<int64_t>(malloc_usable_size(data.get()));
  memory->peak = std::max(memory->peak, memory->current);
  return data;
}

void PlannedAllocator::releaseHeap(void *pointer) {
  RankMemory *memory = currentMemory;
  if (memory && pointer) {
    if (memory->mode == RankMemory::Mode::replay) {
      memory->current -= static_cast<int64_t>(malloc_usable_size(pointer));
    } else if (memory->mode == RankMemory::Mode::observe) {
      // The latest request: the heap gives an address out again.
      auto it = std::find_if(
          memory->requests.rbegin(), memory->requests.rend(),
          [&](const ObservedRequest &r) { return r.pointer == pointer; });
      if (it != memory->requests.rend())
        memory->events.push_back(
            {static_cast<size_t>(memory->requests.rend() - it) - 1, true});
    }
  }
  plannedAllocator().base->raw_deleter()(pointer);
}

} // namespace fsdp

RankMemory::Current::Current(RankMemory &memory) : previous(currentMemory) {
  currentMemory = &memory;
}

RankMemory::Current::~Current() { currentMemory = previous; }

RankMemory::Observation::Observation(RankMemory &memory) : memory(memory) {
  memory.requests.clear();
  memory.events.clear();
  memory.mode = Mode::observe;
}

RankMemory::Observation::~Observation() { memory.mode = Mode::off; }

void RankMemory::Observation::measure(const std::vector<bool> &isPlanned) {
  int64_t held = 0;
  for (const Event &event : memory.events) {
    if (isPlanned[event.request])
      continue;
    auto bytes = static_cast<int64_t>(memory.requests[event.request].bytes);
    held += event.isRelease ? -bytes : bytes;
    memory.peak = std::max(memory.peak, held);
  }
}

RankMemory::Replay::Replay(RankMemory &memory,
                           std::span<const AllocationSlot> slots)
    : memory(memory) {
  memory.slots = slots;
  memory.next = 0;
  memory.current = 0;
  memory.mode = Mode::replay;
}

RankMemory::Replay::~Replay() { memory.mode = Mode::off; }

void fsdp::installPlannedAllocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::SetCPUAllocator(&plannedAllocator(), /*priority=*/255);
  });
}
