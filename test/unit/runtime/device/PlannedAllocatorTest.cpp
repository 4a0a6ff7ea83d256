//===- PlannedAllocatorTest.cpp - Who gets which address ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/PlannedAllocator.h"

#include "runtime/device/Arena.h"
#include "runtime/device/Workers.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <gtest/gtest.h>

#include <thread>

#include <sys/mman.h>

using namespace fsdp;

namespace {

class PlannedAllocatorTest : public testing::Test {
protected:
  void SetUp() override { installPlannedAllocator(); }

  static at::Tensor make(int64_t bytes) {
    return at::empty({bytes}, c10::ScalarType::Byte);
  }

  Arena arena{1 << 16};
  RankMemory memory;
  RankMemory::Current current{memory};
};

TEST_F(PlannedAllocatorTest, TheRequestOfASlotGetsItsAddress) {
  std::vector<AllocationSlot> slots{{}, {arena.at(512), 256}};
  RankMemory::Replay replay(memory, slots);
  at::Tensor first = make(256), second = make(256), third = make(256);
  EXPECT_FALSE(arena.contains(first.data_ptr()));
  EXPECT_EQ(second.data_ptr(), arena.at(512));
  EXPECT_FALSE(arena.contains(third.data_ptr()));
}

TEST_F(PlannedAllocatorTest, WhatDoesNotFitGoesToTheHeap) {
  std::vector<AllocationSlot> slots{{arena.at(0), 255}};
  RankMemory::Replay replay(memory, slots);
  EXPECT_FALSE(arena.contains(make(256).data_ptr()));
}

TEST_F(PlannedAllocatorTest, OtherThreadsAndOtherTimesAreNotAffected) {
  EXPECT_FALSE(arena.contains(make(64).data_ptr()));
  std::vector<AllocationSlot> slots{{arena.at(0), 64}};
  RankMemory::Replay replay(memory, slots);
  std::thread([&] {
    EXPECT_FALSE(arena.contains(make(64).data_ptr()));
  }).join();
  EXPECT_EQ(make(64).data_ptr(), arena.at(0));
}

TEST_F(PlannedAllocatorTest, WhatMissesThePlanIsCounted) {
  make(7); // in no call, but in a step
  EXPECT_EQ(memory.missedBytes(), 7u);
  std::vector<AllocationSlot> slots{{arena.at(0), 64}};
  RankMemory::Replay replay(memory, slots);
  make(64);
  EXPECT_EQ(memory.missedBytes(), 7u);
  EXPECT_TRUE(replay.isAsObserved());
  for (int i = 0; i < 5; ++i)
    make(10000);
  EXPECT_FALSE(replay.isAsObserved());
  EXPECT_EQ(memory.missedBytes(), 50007u);
  EXPECT_GE(memory.missedPeak(), 10000u);
  EXPECT_LT(memory.missedPeak(), 20000u);
}

TEST_F(PlannedAllocatorTest, WhatWorkersAskForIsCounted) {
  int before = at::get_num_threads();
  uint64_t missed = 0, unknown = 0;
  // A rank has a thread, and that one a pool, of its own.
  std::thread([&] {
    at::set_num_threads(3);
    RankMemory own;
    own.countWorkers();
    auto allocate = [] { forEachWorker(3, [] { make(100); }); };
    allocate(); // a rehearsal's
    own.setScratch(nullptr, 0);
    allocate();
    missed = own.missedBytes();
    std::thread([&] {
      make(5000);
      unknown = own.missedBytes() - missed;
    }).join();
  }).join();
  at::set_num_threads(before);
  EXPECT_EQ(missed, 200u);
  EXPECT_EQ(unknown, 0u);
}

TEST_F(PlannedAllocatorTest, ACallThatAsksForLessIsNoticed) {
  std::vector<AllocationSlot> slots{{arena.at(0), 64}, {arena.at(64), 64}};
  RankMemory::Replay replay(memory, slots);
  make(64);
  EXPECT_FALSE(replay.isAsObserved());
}

TEST_F(PlannedAllocatorTest, OneRequestMoreDoesNotShiftTheOthers) {
  std::vector<AllocationSlot> slots{{arena.at(0), 64, 0, 64},
                                    {arena.at(64), 128, 0, 100}};
  RankMemory::Replay replay(memory, slots);
  at::Tensor more = make(8), first = make(64), again = make(8),
             second = make(100);
  EXPECT_FALSE(arena.contains(more.data_ptr()));
  EXPECT_FALSE(arena.contains(again.data_ptr()));
  EXPECT_EQ(first.data_ptr(), arena.at(0));
  EXPECT_EQ(second.data_ptr(), arena.at(64));
  EXPECT_FALSE(replay.isAsObserved());
}

/// The slots of a call that makes `body`'s requests.
template <typename Body>
std::vector<AllocationSlot> observe(RankMemory &memory, size_t results,
                                    char *address, Body body) {
  RankMemory::Observation observation(memory);
  body();
  std::vector<AllocationSlot> slots(observation.requests().size());
  for (size_t i = 0; i < results; ++i)
    slots[i] = {address + i * 128, observation.requests()[i].bytes};
  observation.placeTemporaries(slots);
  return slots;
}

TEST_F(PlannedAllocatorTest, TemporariesShareTheScratchRegion) {
  auto call = [] {
    at::Tensor result = make(5000), a = make(300);
    at::Tensor b = make(100);
    a.reset();
    at::Tensor c = make(320); // fits where `a` was
    at::Tensor d = make(50);  // behind `b`
    at::Tensor e = make(0);
  };
  auto slots = observe(memory, 1, arena.at(0), call);
  ASSERT_EQ(slots.size(), 5u);
  EXPECT_EQ(slots[0].address, arena.at(0));
  EXPECT_EQ(slots[1].offset, 0u);
  EXPECT_EQ(slots[2].offset, 320u);
  EXPECT_EQ(slots[3].offset, 0u);
  EXPECT_EQ(slots[4].offset, 448u);
  EXPECT_EQ(memory.scratchNeeded(), 512u);
  EXPECT_EQ(memory.missedBytes(), 0u) << "a rehearsal is no step";

  Arena scratch(memory.scratchNeeded());
  memory.setScratch(scratch.at(0), scratch.bytes());
  RankMemory::Replay replay(memory, slots);
  call();
  EXPECT_EQ(memory.missedBytes(), 0u);
  EXPECT_TRUE(replay.isAsObserved());
}

TEST_F(PlannedAllocatorTest, AnObservationInAStepCounts) {
  memory.setScratch(nullptr, 0);
  observe(memory, 0, nullptr, [] { make(640); });
  EXPECT_EQ(memory.missedBytes(), 640u);
}

TEST_F(PlannedAllocatorTest, WhatOutlivesItsCallStaysOnTheHeap) {
  at::Tensor kept;
  auto slots = observe(memory, 0, nullptr, [&] { kept = make(300); });
  EXPECT_EQ(slots[0].room, 0u);
  EXPECT_EQ(memory.scratchNeeded(), 0u);
}

TEST_F(PlannedAllocatorTest, LargeMemoryOfObservedCallsGoesBackAtOnce) {
  constexpr int64_t kLarge = 8 << 20;
  auto isMapped = [](void *address) {
    unsigned char isResident = 0;
    return mincore(address, /*length=*/1, &isResident) == 0;
  };
  void *address = nullptr;
  at::Tensor kept;
  {
    RankMemory::Observation observation(memory);
    at::Tensor large = make(kLarge);
    address = large.data_ptr();
    large.fill_(1);
    EXPECT_TRUE(isMapped(address));
    kept = make(kLarge);
    kept.fill_(2);
  }
  EXPECT_FALSE(isMapped(address));
  // A library may keep some of it, and release it from wherever it likes.
  EXPECT_EQ(kept[kLarge - 1].item<uint8_t>(), 2);
  address = kept.data_ptr();
  std::thread([&] { kept.reset(); }).join();
  EXPECT_FALSE(isMapped(address));
}

TEST_F(PlannedAllocatorTest, RawPointersGoBackToWhereTheyCameFrom) {
  std::vector<AllocationSlot> slots{{arena.at(0), 64}};
  RankMemory::Replay replay(memory, slots);
  c10::Allocator *allocator = c10::GetCPUAllocator();
  void *planned = allocator->raw_allocate(64);
  void *heap = allocator->raw_allocate(64);
  EXPECT_EQ(planned, arena.at(0));
  allocator->raw_deallocate(planned);
  allocator->raw_deallocate(heap);
}

TEST_F(PlannedAllocatorTest, EmptyTensorsTakeNoSlot) {
  std::vector<AllocationSlot> slots{{arena.at(0), 64}};
  RankMemory::Replay replay(memory, slots);
  make(0);
  EXPECT_EQ(make(64).data_ptr(), arena.at(0));
}

TEST_F(PlannedAllocatorTest, APoolServesInWhicheverOrder) {
  std::vector<char> room(1024 + 64);
  {
    RankMemory::Pool pool(memory, room);
    auto isInside = [&](const at::Tensor &tensor) {
      auto *at = static_cast<char *>(tensor.data_ptr());
      return at >= room.data() &&
             at + tensor.nbytes() <= room.data() + room.size();
    };
    at::Tensor a = at::empty({256}, at::kByte), b = at::empty({512}, at::kByte);
    EXPECT_TRUE(isInside(a) && isInside(b));
    EXPECT_NE(a.data_ptr(), b.data_ptr());
    void *first = a.data_ptr();
    a.reset();
    // What was given back is taken again, by less; more has no room.
    at::Tensor c = at::empty({100}, at::kByte);
    EXPECT_EQ(c.data_ptr(), first);
    EXPECT_EQ(memory.missedBytes(), 0u);
    at::Tensor d = at::empty({512}, at::kByte);
    EXPECT_FALSE(isInside(d));
    EXPECT_EQ(memory.missedBytes(), 512u);
  }
  // A pool is empty at first, whatever the last one left.
  RankMemory::Pool pool(memory, room);
  at::Tensor all = at::empty({1024}, at::kByte);
  EXPECT_EQ(memory.missedBytes(), 512u);
}

} // namespace
