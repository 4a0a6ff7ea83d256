//===- ExactSumTest.cpp - Sums of squares without rounding ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/ExactSum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace fsdp;

namespace {

/// Of many decades, both signs, with zeros among them.
std::vector<float> makeNumbers(size_t count, int decades) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-float(decades), 0);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = i % 17 ? normal(random) * std::pow(10.f, exponent(random)) : 0;
  return values;
}

SumDigits sumOf(const std::vector<float> &values) {
  SumDigits digits{};
  addSquares(values.data(), values.size(), digits);
  return digits;
}

TEST(ExactSum, DoesNotDependOnCutsOrOrder) {
  std::vector<float> values = makeNumbers(70001, 30);
  SumDigits whole = sumOf(values);
  for (size_t parts : {2, 3, 7, 1000}) {
    SumDigits digits{};
    for (size_t part = parts; part-- > 0;) {
      size_t begin = values.size() * part / parts;
      size_t end = values.size() * (part + 1) / parts;
      SumDigits own{};
      addSquares(values.data() + begin, end - begin, own);
      for (size_t i = 0; i < own.size(); ++i)
        digits[i] += own[i];
    }
    carry(digits);
    EXPECT_EQ(digits, whole) << parts;
  }
  std::ranges::shuffle(values, std::mt19937(3));
  EXPECT_EQ(sumOf(values), whole);
}

TEST(ExactSum, HasTheRootOfTheSum) {
  for (int decades : {0, 3, 18}) {
    std::vector<float> values = makeNumbers(30000, decades);
    long double sum = 0;
    for (float value : values)
      sum += static_cast<long double>(value) * value;
    EXPECT_FLOAT_EQ(rootOf(sumOf(values)), float(std::sqrt(sum)));
  }
  EXPECT_EQ(rootOf(sumOf({3, 4})), 5);
  EXPECT_EQ(rootOf(sumOf({})), 0);
}

TEST(ExactSum, HasRoomForAllFloats) {
  using Limits = std::numeric_limits<float>;
  EXPECT_EQ(rootOf(sumOf({Limits::max()})), Limits::max());
  EXPECT_EQ(rootOf(sumOf({Limits::denorm_min()})), Limits::denorm_min());
  // Nothing is lost beside what is 2^298 times as large.
  SumDigits both = sumOf({Limits::max(), Limits::denorm_min()});
  SumDigits great = sumOf({Limits::max()});
  EXPECT_NE(both, great);
  std::vector<float> many(300000, Limits::max());
  EXPECT_EQ(rootOf(sumOf(many)), Limits::infinity());
  std::vector<float> ones(3 << 20, 1);
  EXPECT_EQ(rootOf(sumOf(ones)), std::sqrt(float(3 << 20)));
}

TEST(ExactSum, IsNotFiniteIfAnAddendIsNot) {
  using Limits = std::numeric_limits<float>;
  EXPECT_EQ(rootOf(sumOf({1, -Limits::infinity()})), Limits::infinity());
  EXPECT_TRUE(std::isnan(rootOf(sumOf({1, Limits::quiet_NaN()}))));
  EXPECT_TRUE(
      std::isnan(rootOf(sumOf({Limits::infinity(), -Limits::quiet_NaN()}))));
}

} // namespace
