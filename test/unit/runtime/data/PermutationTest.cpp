//===- PermutationTest.cpp - A random order without a table ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/Permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

using namespace fsdp;

namespace {

std::vector<uint64_t> all(uint64_t size, uint64_t seed, uint64_t epoch) {
  Permutation permutation(size, seed, epoch);
  std::vector<uint64_t> values;
  for (uint64_t i = 0; i < size; ++i)
    values.push_back(permutation(i));
  return values;
}

TEST(Permutation, TakesEachNumberOnce) {
  for (uint64_t size :
       {1u, 2u, 3u, 4u, 5u, 7u, 16u, 17u, 64u, 65u, 1000u, 4096u, 10007u}) {
    std::vector<uint64_t> values = all(size, 7, 3);
    std::sort(values.begin(), values.end());
    std::vector<uint64_t> numbers(size);
    std::iota(numbers.begin(), numbers.end(), 0);
    EXPECT_EQ(values, numbers) << size;
  }
}

TEST(Permutation, DiffersBySeedAndEpoch) {
  std::set<std::vector<uint64_t>> different;
  for (uint64_t seed : {0, 1, 2})
    for (uint64_t epoch : {0, 1, 2})
      different.insert(all(100, seed, epoch));
  EXPECT_EQ(different.size(), 9u);
  EXPECT_EQ(all(100, 1, 2), all(100, 1, 2));
}

TEST(Permutation, IsTheSameForEver) {
  // A checkpoint of another version reads on in this order.
  EXPECT_EQ(all(8, 42, 0), (std::vector<uint64_t>{0, 3, 1, 2, 6, 7, 5, 4}));
}

/// Whatever number, each place is as likely: the mean of a place over many
/// epochs is the middle, within five standard deviations.
TEST(Permutation, IsUniform) {
  constexpr uint64_t kSize = 50, kEpochs = 2000;
  double deviation = std::sqrt((kSize * kSize - 1) / 12.0 / kEpochs);
  for (uint64_t number : {0u, 1u, 24u, 49u}) {
    double sum = 0;
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch)
      sum += static_cast<double>(Permutation(kSize, 5, epoch)(number));
    EXPECT_NEAR(sum / kEpochs, (kSize - 1) / 2.0, 5 * deviation) << number;
  }
}

TEST(Permutation, TakesSizesThatNoTableCouldHave) {
  constexpr uint64_t kSize = (uint64_t{1} << 62) - 5;
  Permutation permutation(kSize, 1, 1);
  std::set<uint64_t> values;
  for (uint64_t i = 0; i < 1000; ++i) {
    uint64_t value = permutation(kSize - 1 - i);
    EXPECT_LT(value, kSize);
    values.insert(value);
  }
  EXPECT_EQ(values.size(), 1000u);
}

} // namespace
