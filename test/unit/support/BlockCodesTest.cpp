//===- BlockCodesTest.cpp - Numbers of 8 bits that share a scale ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/BlockCodes.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

using namespace fsdp;

TEST(BlockCodes, ZeroBytesAreZeros) {
  EXPECT_EQ(getDynamicMap(true).values[0], 0);
  EXPECT_EQ(getDynamicMap(false).values[0], 0);
  EXPECT_EQ(getFloat8Map().values[0], 0);
}

TEST(BlockCodes, MapsHave256NumbersUpTo1) {
  for (bool isSigned : {false, true}) {
    const auto &values = getDynamicMap(isSigned).values;
    std::set<float> numbers(std::begin(values), std::end(values));
    EXPECT_EQ(numbers.size(), 256u);
    EXPECT_EQ(*numbers.rbegin(), 1);
    EXPECT_EQ(*numbers.begin() < 0, isSigned);
  }
}

// Numbers that bitsandbytes 0.45's create_dynamic_map prints: the least above
// zero, the ends of a decade, the greatest below 1.
TEST(BlockCodes, AreBitsandbytesNumbers) {
  const auto &with = getDynamicMap(true).values;
  EXPECT_FLOAT_EQ(with[1], 5.5e-7f);
  EXPECT_FLOAT_EQ(with[2], 3.25e-6f);
  EXPECT_FLOAT_EQ(with[127], 0.99296875f);
  EXPECT_FLOAT_EQ(with[128], 1.0f);
  EXPECT_FLOAT_EQ(with[129], -0.99296875f);
  EXPECT_FLOAT_EQ(with[255], -5.5e-7f);
  const auto &without = getDynamicMap(false).values;
  EXPECT_FLOAT_EQ(without[1], 3.25e-7f);
  EXPECT_FLOAT_EQ(without[254], 0.996484375f);
  EXPECT_FLOAT_EQ(without[255], 1.0f);
}

TEST(BlockCodes, NoCellHasTwoBorders) {
  for (bool isSigned : {false, true}) {
    const DynamicMap &map = getDynamicMap(isSigned);
    for (size_t i = 0; i < std::size(map.cells); ++i) {
      auto begin = std::bit_cast<float>(
          (DynamicMap::kFirstCell + static_cast<uint32_t>(i)) << 16);
      auto end = std::bit_cast<float>(
          (DynamicMap::kFirstCell + static_cast<uint32_t>(i) + 1) << 16);
      auto borders = std::ranges::count_if(
          map.middles, [&](float at) { return begin <= at && at < end; });
      EXPECT_LE(borders, 1) << "from " << begin << " to " << end;
    }
    EXPECT_GT(map.middles[0],
              std::bit_cast<float>((DynamicMap::kFirstCell + 1) << 16));
  }
}
