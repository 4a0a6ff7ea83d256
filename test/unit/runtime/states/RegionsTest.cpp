//===- RegionsTest.cpp - Rectangles of tensors ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/Regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using testing::ElementsAre;

namespace {

/// Numbers of a region's elements in the tensor, row by row.
std::vector<uint64_t> elementsOf(const Region &region,
                                 const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides = contiguousStrides(shape);
  int64_t first = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    first += region.offset[i] * strides[i];
  std::vector<uint64_t> found;
  forEachRun(region.size, strides, contiguousStrides(region.size),
             [&](uint64_t a, uint64_t b, uint64_t count) {
               EXPECT_EQ(b, found.size());
               for (uint64_t i = 0; i < count; ++i)
                 found.push_back(static_cast<uint64_t>(first) + a + i);
             });
  return found;
}

TEST(Regions, CoverAnyRangeInItsOrder) {
  for (std::vector<int64_t> shape : std::vector<std::vector<int64_t>>{
           {}, {7}, {1, 1}, {3, 4}, {2, 3, 4}, {2, 1, 3, 2}, {4, 1}}) {
    uint64_t all = 1;
    for (int64_t each : shape)
      all *= static_cast<uint64_t>(each);
    for (uint64_t first = 0; first < all; ++first)
      for (uint64_t count = 0; first + count <= all; ++count) {
        std::vector<Region> regions = toRegions(shape, first, count);
        EXPECT_LE(regions.size(), 2 * shape.size() + 1);
        std::vector<uint64_t> found, want;
        for (const Region &region : regions)
          for (uint64_t each : elementsOf(region, shape))
            found.push_back(each);
        for (uint64_t i = 0; i < count; ++i)
          want.push_back(first + i);
        EXPECT_EQ(found, want) << first << " " << count;
      }
  }
}

TEST(Regions, AreWholeRowsWherePossible) {
  std::vector<int64_t> shape{5, 4};
  EXPECT_THAT(toRegions(shape, 4, 12), ElementsAre(Region{{1, 0}, {3, 4}}));
  EXPECT_THAT(toRegions(shape, 2, 13),
              ElementsAre(Region{{0, 2}, {1, 2}}, Region{{1, 0}, {2, 4}},
                          Region{{3, 0}, {1, 3}}));
}

TEST(Regions, MeetInARectangle) {
  Region both = intersect({{2, 0}, {4, 5}}, {{0, 3}, {3, 9}});
  EXPECT_EQ(both, (Region{{2, 3}, {1, 2}}));
  EXPECT_EQ(intersect({{0, 0}, {2, 2}}, {{2, 0}, {2, 2}}).elements(), 0u);
  EXPECT_EQ(intersect({}, {}).elements(), 1u);
}

/// Runs are as long as both places let them be.
TEST(Regions, AreCopiedInLongRuns) {
  auto count = [](std::vector<int64_t> size, std::vector<int64_t> a,
                  std::vector<int64_t> b) {
    int runs = 0;
    forEachRun(size, a, b, [&](uint64_t, uint64_t, uint64_t) { ++runs; });
    return runs;
  };
  EXPECT_EQ(count({3, 4}, {4, 1}, {4, 1}), 1);
  EXPECT_EQ(count({3, 4}, {6, 1}, {4, 1}), 3);
  EXPECT_EQ(count({3, 1}, {6, 1}, {1, 1}), 3);
  EXPECT_EQ(count({1, 4}, {9, 1}, {4, 1}), 1);
  EXPECT_EQ(count({0, 4}, {4, 1}, {4, 1}), 0);
  EXPECT_EQ(count({}, {}, {}), 1);
}

} // namespace
