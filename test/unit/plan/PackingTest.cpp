//===- PackingTest.cpp - Addresses never overlap, and are tight -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/Packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

using namespace fsdp;

namespace {

/// O(n^2) on purpose: shares nothing with the packers.
void expectDisjoint(const std::vector<Interval> &intervals,
                    const Packing &packing) {
  ASSERT_EQ(packing.offsets.size(), intervals.size());
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].bytes == 0)
      continue;
    ASSERT_EQ(packing.offsets[i] % kAlignment, 0);
    ASSERT_LE(packing.offsets[i] + intervals[i].bytes, packing.bytes);
    for (size_t j = 0; j < i; ++j) {
      bool time = intervals[i].first <= intervals[j].last &&
                  intervals[j].first <= intervals[i].last;
      bool space =
          packing.offsets[i] < packing.offsets[j] + intervals[j].bytes &&
          packing.offsets[j] < packing.offsets[i] + intervals[i].bytes;
      ASSERT_FALSE(time && space && intervals[j].bytes) << i << " and " << j;
    }
  }
}

std::vector<Interval> randomIntervals(unsigned seed, size_t count) {
  std::mt19937 random(seed);
  std::vector<Interval> intervals;
  for (size_t i = 0; i < count; ++i) {
    int64_t first = random() % count;
    int64_t length = 1 + random() % (random() % 4 ? 8 : count / 2);
    int64_t bytes = random() % 10 ? 1 + random() % 100000 : 0;
    intervals.push_back({bytes, first, first + length});
  }
  return intervals;
}

TEST(Packing, RandomIntervalsAreDisjointAndTight) {
  double worst = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    auto intervals = randomIntervals(seed, 20 + 10 * seed);
    expectDisjoint(intervals, packByTime(intervals));
    expectDisjoint(intervals, packBySize(intervals));
    Packing best = pack(intervals, 4000);
    expectDisjoint(intervals, best);
    ASSERT_GE(best.bytes, lowerBound(intervals));
    worst = std::max(worst, double(best.bytes) / lowerBound(intervals));
  }
  EXPECT_LT(worst, 1.2);
}

TEST(Packing, LowerBoundCountsBothEnds) {
  std::vector<Interval> touching = {{128, 0, 3}, {128, 3, 5}, {128, 6, 7}};
  EXPECT_EQ(lowerBound(touching), 256);
  EXPECT_EQ(pack(touching, 10).bytes, 256);
}

TEST(Packing, NothingAndEmptyBuffers) {
  EXPECT_EQ(pack({}, 10).bytes, 0);
  std::vector<Interval> empty = {{0, 0, 9}, {0, 2, 3}};
  EXPECT_EQ(pack(empty, 10).bytes, 0);
}

// Activations die in the reverse order of their birth, weights come and go: the
// shape of a training step packs without loss.
TEST(Packing, TrainingStepIsPackedWithoutLoss) {
  std::vector<Interval> intervals;
  const int64_t layers = 200;
  for (int64_t layer = 0; layer < layers; ++layer) {
    intervals.push_back({4096, layer * 2, 4 * layers - 2 * layer});
    intervals.push_back({65536, layer * 2, layer * 2 + 3});
    intervals.push_back(
        {65536, 4 * layers - 2 * layer - 1, 4 * layers - 2 * layer + 1});
  }
  Packing best = pack(intervals, 4000);
  expectDisjoint(intervals, best);
  EXPECT_LE(best.bytes, 1.1 * lowerBound(intervals));
}

TEST(Packing, GrowsLittleMoreThanLinearly) {
  auto intervals = randomIntervals(1, 100000);
  auto begin = std::chrono::steady_clock::now();
  Packing packing = pack(intervals, 4000);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_GE(packing.bytes, lowerBound(intervals));
}

} // namespace
