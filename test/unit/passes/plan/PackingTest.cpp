//===- PackingTest.cpp - Addresses never overlap, and are tight -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/Packing.h"
#include "passes/plan/PackingSearch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
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
    ASSERT_EQ(packing.offsets[i] % getAlignment(intervals[i].bytes), 0);
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
    expectDisjoint(intervals, packByArea(intervals));
    Packing best = pack(intervals);
    expectDisjoint(intervals, best);
    ASSERT_GE(best.bytes, lowerBound(intervals));
    worst = std::max(worst, double(best.bytes) / lowerBound(intervals));
  }
  EXPECT_LT(worst, 1.03);
}

TEST(Packing, LowerBoundCountsBothEnds) {
  std::vector<Interval> touching = {{128, 0, 3}, {128, 3, 5}, {128, 6, 7}};
  EXPECT_EQ(lowerBound(touching), 256);
  EXPECT_EQ(pack(touching).bytes, 256);
}

TEST(Packing, NothingAndEmptyBuffers) {
  EXPECT_EQ(pack({}).bytes, 0);
  std::vector<Interval> empty = {{0, 0, 9}, {0, 2, 3}};
  EXPECT_EQ(pack(empty).bytes, 0);
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
  Packing best = pack(intervals);
  expectDisjoint(intervals, best);
  EXPECT_LE(best.bytes, 1.001 * lowerBound(intervals));
}

TEST(Packing, GrowsLittleMoreThanLinearly) {
  auto intervals = randomIntervals(1, 100000);
  auto begin = std::chrono::steady_clock::now();
  Packing packing = pack(intervals);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_GE(packing.bytes, lowerBound(intervals));
}

/// The lowest packing of some few buffers, by trying all offsets that could
/// matter: zero, and on top of any other.
int64_t packByForce(const std::vector<Interval> &intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t best = std::numeric_limits<int64_t>::max();
  // Pushed down as far as they go in some order, one of which is that of the
  // best packing's offsets.
  do {
    std::vector<int64_t> tops(intervals.size(), 0);
    int64_t height = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const Interval &each = intervals[order[i]];
      int64_t offset = 0;
      for (size_t j = 0; j < i; ++j) {
        const Interval &below = intervals[order[j]];
        if (below.first <= each.last && each.first <= below.last)
          offset = std::max(offset, tops[order[j]]);
      }
      tops[order[i]] =
          roundUp(offset, getAlignment(each.bytes)) + alignUp(each.bytes);
      height = std::max(height, tops[order[i]]);
    }
    best = std::min(best, height);
  } while (std::ranges::next_permutation(order).found);
  return best;
}

std::vector<Interval> smallIntervals(unsigned seed, size_t count) {
  std::mt19937 random(seed);
  std::vector<Interval> intervals;
  for (size_t i = 0; i < count; ++i) {
    int64_t first = random() % count;
    // Of all alignments.
    int64_t unit = random() % 3 ? 100 : 2500;
    intervals.push_back({static_cast<int64_t>(unit * (1 + random() % 9)), first,
                         static_cast<int64_t>(first + random() % count)});
  }
  return intervals;
}

TEST(Packing, SmallProblemsArePackedAsLowAsPossible) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    auto intervals = smallIntervals(seed, 5 + seed % 3);
    int64_t lowest = packByForce(intervals);
    ASSERT_GE(lowest, lowerBound(intervals));
    Packing best = pack(intervals);
    expectDisjoint(intervals, best);
    ASSERT_GE(best.bytes, lowest) << "seed " << seed;
    ASSERT_LE(best.bytes, lowest + lowest / kEnough) << "seed " << seed;
    // Nothing is found where nothing is.
    PackingSearch search(intervals);
    ASSERT_FALSE(search.find(lowest - 1, 100000)) << "seed " << seed;
    std::optional<Packing> found = search.find(lowest, 100000);
    ASSERT_TRUE(found) << "seed " << seed;
    ASSERT_EQ(found->bytes, lowest);
    expectDisjoint(intervals, *found);
  }
}

TEST(Packing, BoundThatNoPackingReaches) {
  std::vector<Interval> intervals = {{3, 2, 3}, {1, 1, 4}, {2, 6, 6},
                                     {2, 1, 3}, {4, 0, 1}, {4, 7, 8},
                                     {4, 4, 7}, {3, 3, 6}};
  for (Interval &interval : intervals)
    interval.bytes *= kAlignment;
  int64_t lowest = packByForce(intervals);
  EXPECT_GT(lowest, lowerBound(intervals));
  Packing best = pack(intervals);
  expectDisjoint(intervals, best);
  EXPECT_EQ(best.bytes, lowest);
  EXPECT_FALSE(PackingSearch(intervals).find(lowest - 1, 1000000));
}

TEST(Packing, SearchReachesTheBoundWhereGreedyOrdersDoNot) {
  int beaten = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    auto intervals = randomIntervals(100 + seed, 200);
    Packing best = pack(intervals);
    expectDisjoint(intervals, best);
    Packing greedy = pack(intervals, {.greedyBuffers = 50000, .searchWork = 0});
    ASSERT_LE(best.bytes, greedy.bytes);
    beaten += best.bytes < greedy.bytes;
    EXPECT_LE(best.bytes, 1.06 * lowerBound(intervals)) << "seed " << seed;
  }
  EXPECT_GT(beaten, 0);
}

// Who asks whether so many bytes are enough learns what packing ends below.
TEST(Packing, EnoughEndsTheSearchAndPackingGetsNoHigher) {
  int earlier = 0;
  for (unsigned seed = 0; seed < 3; ++seed) {
    auto intervals = randomIntervals(100 + seed, 100);
    Packing best = pack(intervals);
    int64_t greedy = pack(intervals, {.searchWork = 0}).bytes;
    for (int64_t enough : {greedy, best.bytes, best.bytes - 64}) {
      Packing first = pack(intervals, {.enough = enough});
      expectDisjoint(intervals, first);
      EXPECT_GE(first.bytes, best.bytes) << "seed " << seed;
      EXPECT_EQ(first.bytes <= enough, best.bytes <= enough) << "seed " << seed;
      earlier += first.bytes > best.bytes;
    }
  }
  EXPECT_GT(earlier, 0);
}

// Work is counted, not measured.
TEST(Packing, EqualInputsHaveEqualOffsets) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    auto intervals = randomIntervals(200 + seed, 300);
    EXPECT_EQ(pack(intervals).offsets, pack(intervals).offsets);
  }
}

TEST(Packing, SearchKeepsToItsWork) {
  auto intervals = randomIntervals(7, 400);
  PackingSearch search(intervals);
  EXPECT_FALSE(search.find(lowerBound(intervals) / 2, 1000000));
  EXPECT_GE(search.getWork(), 1000000);
  EXPECT_LT(search.getWork(), 1000000 + search.getDescentWork());
}

// Sizes near those of the largest machines do not overflow.
TEST(Packing, HugeBuffersArePacked) {
  auto intervals = randomIntervals(3, 100);
  for (Interval &interval : intervals)
    interval.bytes *= int64_t{1} << 24;
  Packing best = pack(intervals);
  expectDisjoint(intervals, best);
  EXPECT_LE(best.bytes, 1.02 * lowerBound(intervals));
}

TEST(Packing, SmallBuffersAreAlignedToLess) {
  EXPECT_EQ(getAlignment(4), 16);
  EXPECT_EQ(getAlignment(2047), 16);
  EXPECT_EQ(getAlignment(2048), 32);
  EXPECT_EQ(getAlignment(8191), 64);
  EXPECT_EQ(getAlignment(8192), 128);
  EXPECT_EQ(getAlignment(int64_t{1} << 40), 128);
  for (int64_t bytes = 1024; bytes < 20000; ++bytes) {
    ASSERT_GE(alignUp(bytes), bytes);
    ASSERT_LE(alignUp(bytes) - bytes, bytes / 64);
  }
}

} // namespace
