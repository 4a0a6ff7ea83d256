//===- InitializerTest.cpp - First values that are computed ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/weights/Initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace fsdp;
using plan::InitKind;

namespace {

plan::InitializerT make(InitKind kind, std::vector<double> arguments) {
  plan::InitializerT init;
  init.kind = kind;
  init.arguments = std::move(arguments);
  return init;
}

template <typename T>
std::vector<T> compute(const plan::InitializerT &init, uint64_t first,
                       uint64_t count, std::vector<int64_t> shape,
                       const char *name = "w", uint64_t seed = 3) {
  std::vector<T> values(count);
  computeElements<T>(init, {name, shape, seed}, first, values);
  return values;
}

constexpr int64_t kCount = 1 << 18;

/// The mean of f(x) over many elements, and its standard error.
template <typename T, typename Function>
void expectMean(const plan::InitializerT &init, double expected,
                Function function) {
  double sum = 0, squares = 0;
  for (T x : compute<T>(init, 0, kCount, {kCount})) {
    double value = function(double(x));
    sum += value;
    squares += value * value;
  }
  double mean = sum / kCount;
  double error = std::sqrt((squares / kCount - mean * mean) / kCount);
  EXPECT_NEAR(mean, expected, 5 * error);
}

template <typename T>
class Moments : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Moments, Types);

TYPED_TEST(Moments, OfNormal) {
  auto init = make(InitKind::normal, {0.5, 0.02});
  auto z = [](double x) { return (x - 0.5) / 0.02; };
  expectMean<TypeParam>(init, 0, z);
  expectMean<TypeParam>(init, 1, [&](double x) { return z(x) * z(x); });
  expectMean<TypeParam>(init, 0, [&](double x) { return std::pow(z(x), 3); });
  expectMean<TypeParam>(init, 3, [&](double x) { return std::pow(z(x), 4); });
  // Neighbours are independent.
  auto values = compute<TypeParam>(init, 0, kCount, {kCount});
  double sum = 0;
  for (int64_t i = 1; i < kCount; ++i)
    sum += z(values[i]) * z(values[i - 1]);
  EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(kCount));
}

TYPED_TEST(Moments, OfUniform) {
  auto init = make(InitKind::uniform, {-3, 1});
  expectMean<TypeParam>(init, -1, [](double x) { return x; });
  expectMean<TypeParam>(init, 16.0 / 12,
                        [](double x) { return (x + 1) * (x + 1); });
  auto values = compute<TypeParam>(init, 0, kCount, {kCount});
  auto [low, high] = std::ranges::minmax(values);
  EXPECT_GE(low, -3);
  EXPECT_LE(high, 1);
  EXPECT_LT(low, -2.999);
  EXPECT_GT(high, 0.999);
}

TYPED_TEST(Moments, OfTruncatedNormal) {
  // One standard deviation to each side: variance 1 - 2 phi(1) / (2 Phi(1) -
  // 1).
  auto init = make(InitKind::trunc_normal, {1, 2, -1, 3});
  expectMean<TypeParam>(init, 1, [](double x) { return x; });
  double phi = std::exp(-0.5) / std::sqrt(2 * M_PI);
  double variance = 4 * (1 - 2 * phi / std::erf(std::sqrt(0.5)));
  expectMean<TypeParam>(init, variance,
                        [](double x) { return (x - 1) * (x - 1); });
  auto values = compute<TypeParam>(init, 0, kCount, {kCount});
  auto [low, high] = std::ranges::minmax(values);
  EXPECT_GE(low, -1);
  EXPECT_LE(high, 3);
}

TYPED_TEST(Moments, TailsOfATruncatedNormalAreFinite) {
  for (auto arguments :
       {std::vector<double>{0, 1, -100, 100}, std::vector<double>{0, 1, 7, 8}})
    for (TypeParam x : compute<TypeParam>(
             make(InitKind::trunc_normal, arguments), 0, 1 << 14, {1 << 14})) {
      EXPECT_TRUE(std::isfinite(x));
      EXPECT_GE(x, arguments[2]);
      EXPECT_LE(x, arguments[3]);
    }
}

TYPED_TEST(Moments, PartsAreThoseOfTheWhole) {
  constexpr uint64_t count = 1003;
  for (auto init :
       {make(InitKind::normal, {0, 1}), make(InitKind::uniform, {0, 1}),
        make(InitKind::trunc_normal, {0, 1, -2, 2})}) {
    auto whole = compute<TypeParam>(init, 0, count, {count});
    for (uint64_t parts : {2, 3, 4, 7, 64}) {
      std::vector<TypeParam> joined;
      uint64_t rows = (count + parts - 1) / parts;
      for (uint64_t first = 0; first < count; first += rows) {
        auto part = compute<TypeParam>(init, first,
                                       std::min(rows, count - first), {count});
        joined.insert(joined.end(), part.begin(), part.end());
      }
      EXPECT_EQ(joined, whole) << parts;
    }
  }
}

TYPED_TEST(Moments, NamesAndSeedsHaveSequencesOfTheirOwn) {
  auto init = make(InitKind::normal, {0, 1});
  auto a = compute<TypeParam>(init, 0, 64, {64}, "a", 1);
  EXPECT_EQ(a, (compute<TypeParam>(init, 0, 64, {64}, "a", 1)));
  EXPECT_NE(a, (compute<TypeParam>(init, 0, 64, {64}, "b", 1)));
  EXPECT_NE(a, (compute<TypeParam>(init, 0, 64, {64}, "a", 2)));
}

TEST(Initializer, BlocksBeyond32BitsDiffer) {
  auto init = make(InitKind::uniform, {0, 1});
  auto low = compute<float>(init, 0, 4, {int64_t(1) << 40});
  auto high = compute<float>(init, uint64_t(1) << 34, 4, {int64_t(1) << 40});
  EXPECT_NE(low, high);
}

TEST(Initializer, EyeIsTheDiagonalOfItsRows) {
  auto values = compute<float>(make(InitKind::eye, {}), 3, 6, {4, 3});
  EXPECT_EQ(values, (std::vector<float>{0, 1, 0, 0, 0, 1}));
}

TEST(Initializer, RopeHasRotaryFrequencies) {
  auto values = compute<float>(make(InitKind::rope, {10000}), 1, 3, {4});
  EXPECT_FLOAT_EQ(values[0], 0.1f);
  EXPECT_FLOAT_EQ(values[1], 0.01f);
  EXPECT_FLOAT_EQ(values[2], 0.001f);
}

TEST(Initializer, InverseNormalInverts) {
  EXPECT_EQ(inverseNormal(0.5), 0);
  EXPECT_EQ(inverseNormal(0), -INFINITY);
  EXPECT_EQ(inverseNormal(1), INFINITY);
  for (double x = -8; x <= 5; x += 0.0625) {
    double p = 0.5 * std::erfc(-x / std::sqrt(2.0));
    EXPECT_NEAR(inverseNormal(p), x, 1e-9 * std::max(1.0, std::abs(x))) << x;
  }
}

} // namespace
