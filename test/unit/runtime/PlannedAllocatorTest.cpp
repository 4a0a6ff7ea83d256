//===- PlannedAllocatorTest.cpp - Who gets which address ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/PlannedAllocator.h"

#include "runtime/Arena.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <gtest/gtest.h>

#include <thread>

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

TEST_F(PlannedAllocatorTest, ScratchIsItsHighWaterMark) {
  {
    RankMemory::Replay replay(memory, {});
    for (int i = 0; i < 5; ++i)
      make(10000);
  }
  EXPECT_GE(memory.scratchPeak(), 10000u);
  EXPECT_LT(memory.scratchPeak(), 20000u);
}

TEST_F(PlannedAllocatorTest, ObservedRequestsCountUnlessPlanned) {
  RankMemory::Observation observation(memory);
  at::Tensor result = make(5000);
  make(300);
  make(400);
  ASSERT_EQ(observation.requests().size(), 3u);
  EXPECT_EQ(observation.requests()[0].pointer, result.data_ptr());
  observation.measure({true, false, false});
  EXPECT_EQ(memory.scratchPeak(), 400u);
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

} // namespace
