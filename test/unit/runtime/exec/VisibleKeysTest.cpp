//===- VisibleKeysTest.cpp - Which keys a mask leaves to see --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/VisibleKeys.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

using namespace fsdp;

namespace {

using Blocks = std::vector<VisibleBlock>;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// at::manual_seed asks for GPUs, which other tests are to do first.
void seed(uint64_t number) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(number);
}

double leastOf(at::ScalarType dtype) {
  switch (dtype) {
  case at::kDouble:
    return std::numeric_limits<double>::lowest();
  case at::kBFloat16:
    return std::numeric_limits<c10::BFloat16>::lowest();
  case at::kHalf:
    return std::numeric_limits<c10::Half>::lowest();
  default:
    return std::numeric_limits<float>::lowest();
  }
}

at::Tensor hide(const at::Tensor &seen, double hidden = -kInf,
                at::ScalarType dtype = at::kFloat) {
  return at::zeros_like(seen, dtype).masked_fill(seen.logical_not(), hidden);
}

/// Documents of one length.
at::Tensor documents(int64_t length, int64_t each) {
  at::Tensor of = at::arange(length).div(each, "floor");
  return of.unsqueeze(0) == of.unsqueeze(1);
}

TEST(VisibleKeys, ADocumentIsABlock) {
  for (at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    for (double hidden : {-kInf, leastOf(dtype)}) {
      auto found = findVisible(hide(documents(512, 128), hidden, dtype));
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(found[0], (Blocks{{0, 128, 0, 128},
                                  {128, 256, 128, 256},
                                  {256, 384, 256, 384},
                                  {384, 512, 384, 512}}))
          << dtype << " " << hidden;
    }
}

TEST(VisibleKeys, WhatIsHardlyLessThanAllIsOneBlock) {
  EXPECT_EQ(findVisible(at::zeros({512, 512}))[0], (Blocks{{0, 512, 0, 512}}));
  // A bias hides nothing.
  EXPECT_EQ(findVisible(at::rand({512, 512}).mul(-1e30))[0],
            (Blocks{{0, 512, 0, 512}}));
  at::Tensor padded = at::ones({512, 512}, at::kBool);
  padded.narrow(1, 500, 12).fill_(false);
  EXPECT_EQ(findVisible(hide(padded))[0], (Blocks{{0, 512, 0, 512}}));
}

TEST(VisibleKeys, EntriesOfABatchHaveBlocksOfTheirOwn) {
  at::Tensor left = at::ones({512, 512}, at::kBool), right = left.clone();
  left.narrow(1, 0, 256).fill_(false);
  right.narrow(1, 300, 212).fill_(false);
  auto found = findVisible(hide(at::stack({left, right, right})).unsqueeze(1));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], (Blocks{{0, 512, 256, 512}}));
  EXPECT_EQ(found[1], (Blocks{{0, 512, 0, 300}}));
  EXPECT_EQ(found[2], found[1]);
  // One row for all queries, as padding has it.
  at::Tensor row = hide(right.narrow(0, 0, 1)).expand({2, 4, 512, 512});
  EXPECT_EQ(findVisible(row), (std::vector<Blocks>(2, found[1])));
}

TEST(VisibleKeys, AKeyThatOneHeadSeesIsSeen) {
  at::Tensor seen = documents(512, 128);
  at::Tensor other = seen.clone();
  other[511][3] = true;
  auto found = findVisible(hide(at::stack({seen, other})).unsqueeze(0));
  EXPECT_EQ(found[0].back().firstKey, 3);
  EXPECT_EQ(found[0].front(), (VisibleBlock{0, 128, 0, 128}));
}

// The softmax of equal numbers gives each its share, however low they are.
TEST(VisibleKeys, AQueryToWhichAllIsLowSeesAll) {
  at::Tensor mask = hide(documents(512, 128), leastOf(at::kFloat));
  mask[130].fill_(leastOf(at::kFloat));
  EXPECT_EQ(findVisible(mask)[0][1].firstKey, 0);
  EXPECT_EQ(findVisible(mask)[0][1].endKey, 512);
  // Half of the least number does not pass beside the least.
  mask[130][129] = leastOf(at::kFloat) * 0.75;
  EXPECT_EQ(findVisible(mask)[0][1].endKey, 512);
  mask[130][129] = -1;
  EXPECT_EQ(findVisible(mask)[0][1], (VisibleBlock{128, 256, 128, 256}));
  mask[130][129] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(findVisible(mask)[0][1].endKey, 512);
}

TEST(VisibleKeys, AQueryThatSeesNothingHasAKey) {
  at::Tensor seen = documents(512, 128);
  seen.narrow(0, 128, 128).fill_(false);
  Blocks found = findVisible(hide(seen))[0];
  EXPECT_EQ(found[0], (VisibleBlock{0, 128, 0, 128}));
  EXPECT_EQ(found[1], (VisibleBlock{128, 256, 0, 1}));
}

TEST(VisibleKeys, NoBlockLeavesOutWhatIsSeen) {
  seed(3);
  for (int64_t round = 0; round < 30; ++round) {
    int64_t queries = 128 + at::randint(300, {1}).item<int64_t>();
    int64_t keys = 128 + at::randint(300, {1}).item<int64_t>();
    // Ranges by chance, some with holes.
    at::Tensor begin = at::randint(keys, {2, queries, 1});
    at::Tensor end = begin + at::randint(1 + round % 90, {2, queries, 1});
    at::Tensor key = at::arange(keys);
    at::Tensor seen = (key >= begin) & (key < end);
    if (round % 3 == 0)
      seen &= at::rand({2, queries, keys}) < 0.7;
    auto found = findVisible(hide(seen).unsqueeze(1));
    for (int64_t entry = 0; entry < 2; ++entry) {
      at::Tensor rest = seen[entry].clone();
      int64_t next = 0;
      for (const VisibleBlock &b : found[size_t(entry)]) {
        EXPECT_EQ(b.firstQuery, next);
        next = b.endQuery;
        ASSERT_LT(b.firstKey, b.endKey);
        rest.narrow(0, b.firstQuery, b.endQuery - b.firstQuery)
            .narrow(1, b.firstKey, b.endKey - b.firstKey)
            .fill_(false);
      }
      EXPECT_EQ(next, queries);
      EXPECT_FALSE(rest.any().item<bool>()) << "round " << round;
    }
  }
}

TEST(VisibleKeys, OtherTensorsAreNotRead) {
  EXPECT_FALSE(hasVisibleKeys(at::ones({4, 4}, at::kBool)));
  EXPECT_FALSE(hasVisibleKeys(at::zeros({2, 4, 4})));
  EXPECT_FALSE(hasVisibleKeys(at::zeros({4, 4}).t()));
  EXPECT_FALSE(hasVisibleKeys(at::zeros({0, 4})));
  EXPECT_TRUE(hasVisibleKeys(at::zeros({1, 1, 4, 4})));
}

} // namespace
