//===- ReadAheadTest.cpp - Batches that are read in advance ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/ReadAhead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

using namespace fsdp;

namespace {

constexpr uint64_t kBytes = 64;

void fill(uint64_t position, std::byte *to) {
  for (uint64_t i = 0; i < kBytes / sizeof(uint64_t); ++i)
    std::memcpy(to + i * sizeof(uint64_t), &position, sizeof(position));
}

/// The number that a batch is full of.
uint64_t numberOf(std::span<const std::byte> bytes) {
  uint64_t first;
  std::memcpy(&first, bytes.data(), sizeof(first));
  for (size_t i = 0; i < bytes.size(); i += sizeof(first))
    EXPECT_EQ(std::memcmp(bytes.data() + i, &first, sizeof(first)), 0);
  return first;
}

/// Waits until `value` is at least `least`, or a minute is over.
void await(const std::atomic<uint64_t> &value, uint64_t least) {
  auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (value < least && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_GE(value, least);
}

TEST(ReadAhead, GivesEachBatch) {
  ReadAhead ahead(kBytes, 3, fill);
  for (uint64_t position = 0; position < 3000; position += 3)
    EXPECT_EQ(numberOf(ahead.get(position)), position);
}

TEST(ReadAhead, ReadsWhatWillBeAskedForAndNoMore) {
  std::atomic<uint64_t> calls = 0;
  ReadAhead ahead(kBytes, 1, [&](uint64_t position, std::byte *to) {
    fill(position, to);
    ++calls;
  });
  uint64_t buffers = ahead.memory() / kBytes;
  EXPECT_GE(buffers, 2u);
  EXPECT_EQ(calls, 0u);
  ahead.get(0);
  await(calls, buffers);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(calls, buffers);
}

TEST(ReadAhead, MemoryIsBounded) {
  constexpr uint64_t kLarge = uint64_t{40} << 20;
  ReadAhead ahead(kLarge, 1, [](uint64_t, std::byte *) {});
  EXPECT_EQ(ahead.memory(), 2 * kLarge);
}

TEST(ReadAhead, CanBeSentElsewhere) {
  ReadAhead ahead(kBytes, 2, fill);
  for (uint64_t position : {0, 2, 100, 102, 7, 9, 9, 0, 3, 1'000'000, 4, 6, 8})
    EXPECT_EQ(numberOf(ahead.get(position)), position);
}

TEST(ReadAhead, ErrorsComeWithTheBatchThatNeedsTheRow) {
  ReadAhead ahead(kBytes, 1, [](uint64_t position, std::byte *to) {
    if (position == 2)
      throw std::runtime_error("two");
    fill(position, to);
  });
  EXPECT_EQ(numberOf(ahead.get(0)), 0u);
  EXPECT_EQ(numberOf(ahead.get(1)), 1u);
  EXPECT_THROW(ahead.get(2), std::runtime_error);
  EXPECT_EQ(numberOf(ahead.get(3)), 3u);
}

TEST(ReadAhead, EndsWhileItReads) {
  for (int i = 0; i < 200; ++i) {
    ReadAhead ahead(kBytes, 1, fill);
    if (i % 2)
      ahead.get(5);
  }
}

} // namespace
