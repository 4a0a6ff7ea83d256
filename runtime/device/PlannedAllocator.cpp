//===- PlannedAllocator.cpp - Operators write where the plan says ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/PlannedAllocator.h"

#include "runtime/device/Arena.h"
#include "runtime/device/MappedBlocks.h"
#include "runtime/device/Workers.h"
#include "support/Error.h"

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include <malloc.h>

using namespace fsdp;

static thread_local RankMemory *currentMemory = nullptr;
static thread_local RankMemory *currentDeviceMemory = nullptr;

/// As LibTorch's own allocators align.
static constexpr size_t kHostAlignment = 64, kDeviceAlignment = 512;

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
  static void releasePlanned(void *pointer) {
    if (currentMemory)
      currentMemory->noteReturn(pointer);
  }
  static void releaseHeap(void *pointer);
  /// oneDNN frees raw pointers through whichever allocator is installed, and
  /// may have been served from an arena.
  static void releaseAny(void *pointer) {
    if (Arena::anyContains(pointer))
      releasePlanned(pointer);
    else
      releaseHeap(pointer);
  }

  static c10::DataPtr planned(void *address) {
    return {address, address, &releasePlanned, c10::Device(c10::kCPU)};
  }

  c10::DataPtr heap(size_t bytes) {
    void *pointer = base->raw_allocate(bytes);
    return {pointer, pointer, &releaseHeap, c10::Device(c10::kCPU)};
  }

  /// For a call that is observed: what it asks for is not needed again.
  c10::DataPtr beside(size_t bytes) {
    void *pointer =
        bytes >= MappedBlocks::kLeast ? mapped.allocate(bytes) : nullptr;
    if (!pointer)
      return heap(bytes);
    return {pointer, pointer, &releaseHeap, c10::Device(c10::kCPU)};
  }

  /// What `pointer`, of `heap` or `beside`, really takes.
  size_t takenBy(void *pointer) const {
    size_t bytes = mapped.bytesOf(pointer);
    return bytes != 0 ? bytes : malloc_usable_size(pointer);
  }

  c10::Allocator *const base = c10::GetCPUAllocator();
  MappedBlocks mapped;
};

static PlannedAllocator &plannedAllocator() {
  // Never destroyed: storages keep its address.
  static PlannedAllocator &instance = *new PlannedAllocator;
  return instance;
}

c10::DataPtr PlannedAllocator::allocate(size_t bytes) {
  RankMemory *memory = currentMemory;
  if (!memory && bytes != 0)
    RankMemory::noteByWorker(bytes);
  if (!memory || bytes == 0)
    return heap(bytes);
  if (void *address = memory->place(bytes))
    return planned(address);
  c10::DataPtr data = memory->isObserving() ? beside(bytes) : heap(bytes);
  memory->noteElsewhere(data.get(), bytes, takenBy(data.get()));
  return data;
}

void PlannedAllocator::releaseHeap(void *pointer) {
  PlannedAllocator &allocator = plannedAllocator();
  if (currentMemory && pointer)
    currentMemory->noteRelease(pointer, allocator.takenBy(pointer));
  if (!allocator.mapped.release(pointer))
    allocator.base->raw_deleter()(pointer);
}

} // namespace fsdp

/// Of the rank whose worker this thread is; null: none's.
static thread_local std::shared_ptr<std::atomic<uint64_t>> workerCount;

void RankMemory::noteByWorker(size_t bytes) {
  if (workerCount)
    workerCount->fetch_add(bytes, std::memory_order_relaxed);
}

void RankMemory::countWorkers() {
  // LibTorch's pool is that of OpenMP, which each thread has for itself.
  forEachWorker(at::get_num_threads(), [this] { workerCount = workers; });
}

size_t RankMemory::alignment() const {
  return isHost() ? kHostAlignment : kDeviceAlignment;
}

RankMemory *&RankMemory::slotOf(Kind kind) {
  return kind == Kind::host ? currentMemory : currentDeviceMemory;
}

void RankMemory::noteElsewhere(void *pointer, size_t bytes, size_t taken) {
  if (mode == Mode::observe) {
    if (isSealed)
      missed += bytes;
    events.push_back({requests.size(), false});
    requests.push_back({pointer, bytes});
    return;
  }
  missed += bytes;
  held += static_cast<int64_t>(taken);
  peak = std::max(peak, held);
}

void RankMemory::noteRelease(void *pointer, size_t taken) {
  if (mode != Mode::observe) {
    held -= static_cast<int64_t>(taken);
    return;
  }
  // The latest request: the heap gives an address out again.
  auto it = std::find_if(
      requests.rbegin(), requests.rend(),
      [&](const ObservedRequest &r) { return r.pointer == pointer; });
  if (it != requests.rend())
    events.push_back(
        {static_cast<size_t>(requests.rend() - it) - 1, /*isRelease=*/true});
}

RankMemory::Current::Current(RankMemory &memory)
    : slot(slotOf(memory.kind)), previous(slot) {
  slot = &memory;
}

RankMemory::Current::~Current() { slot = previous; }

//===----------------------------------------------------------------------===//
// What is lent
//===----------------------------------------------------------------------===//

RankMemory::Loan::Loan(RankMemory &memory,
                       std::function<std::vector<Bytes>()> find,
                       std::function<void(Bytes)> clean)
    : memory(memory) {
  memory.findLent = std::move(find);
  memory.cleanLent = std::move(clean);
}

RankMemory::Loan::~Loan() {
  memory.findLent = nullptr;
  memory.cleanLent = nullptr;
}

void *RankMemory::borrow(size_t bytes) {
  if (mode != Mode::observe || !findLent)
    return nullptr;
  if (!lent)
    lent = findLent();
  char *found = borrowed.take(*lent, bytes, alignment());
  if (found)
    everBorrowed.emplace_back(found, bytes);
  return found;
}

void RankMemory::Observation::endLoan() const {
  const std::vector<Bytes> &kept = memory.borrowed.getTaken();
  if (!kept.empty())
    throw Error(ErrorId::OutOfMemory,
                "a library keeps " + std::to_string(kept[0].size()) +
                    " bytes beyond the call, for which the device has no room "
                    "beside the plan; use more ranks, or a smaller batch");
  for (Bytes part : memory.everBorrowed)
    memory.cleanLent(part);
  memory.everBorrowed.clear();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void *RankMemory::placeSpare(size_t bytes) {
  for (size_t i = 0; i < spares.size(); ++i)
    if (spares[i].asked == bytes && !sparesTaken[i]) {
      sparesTaken[i] = true;
      return spares[i].address;
    }
  hasMissed = true;
  return nullptr;
}

RankMemory::Observation::Observation(RankMemory &memory) : memory(memory) {
  memory.lent.reset();
  memory.borrowed.clear();
  memory.everBorrowed.clear();
  memory.requests.clear();
  memory.events.clear();
  memory.mode = Mode::observe;
}

RankMemory::Observation::~Observation() { memory.mode = Mode::off; }

void RankMemory::Observation::placeTemporaries(
    std::vector<AllocationSlot> &slots) const {
  endLoan();
  struct Block {
    size_t request, begin, end;
  };
  auto alignScratch = [alignment = memory.alignment()](size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  // What a library keeps for itself beyond the call stays on the heap.
  std::vector<bool> isReleased(slots.size());
  for (const Event &event : memory.events)
    if (event.isRelease)
      isReleased[event.request] = true;
  // Of the blocks that are held, by address.
  std::vector<Block> blocks;
  for (const Event &event : memory.events) {
    if (slots[event.request].address || !isReleased[event.request])
      continue;
    if (event.isRelease) {
      std::erase_if(blocks, [&](const Block &block) {
        return block.request == event.request;
      });
      continue;
    }
    size_t bytes = memory.requests[event.request].bytes;
    size_t begin = 0;
    auto at = blocks.begin();
    while (at != blocks.end() && at->begin < begin + bytes)
      begin = alignScratch((at++)->end);
    blocks.insert(at, {event.request, begin, begin + bytes});
    slots[event.request] = {nullptr, bytes, begin};
    memory.needed = std::max(memory.needed, alignScratch(begin + bytes));
  }
}

RankMemory::Replay::Replay(RankMemory &memory,
                           std::span<const AllocationSlot> slots,
                           std::span<const AllocationSlot> spares)
    : memory(memory) {
  memory.slots = slots;
  memory.spares = spares;
  memory.sparesTaken.assign(spares.size(), false);
  memory.next = 0;
  memory.held = 0;
  memory.hasMissed = false;
  memory.mode = Mode::replay;
}

RankMemory::Replay::~Replay() { memory.mode = Mode::off; }

RankMemory::Pool::Pool(RankMemory &memory, Bytes region) : memory(memory) {
  memory.pool.clear();
  memory.poolRegion = region;
  memory.held = 0;
  memory.mode = Mode::pool;
}

RankMemory::Pool::~Pool() { memory.mode = Mode::off; }

void fsdp::installPlannedAllocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::SetCPUAllocator(&plannedAllocator(), /*priority=*/255);
  });
}
