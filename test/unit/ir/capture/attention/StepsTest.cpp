//===- StepsTest.cpp - Tensors whose rows are constant in pieces ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/ConstantValues.h"
#include "ir/capture/attention/MaskForms.h"
#include "test/unit/ir/capture/attention/Recorded.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <random>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;

namespace {

Tensor toWhole(const Steps &steps) {
  int64_t rows = steps.sizes[steps.sizes.size() - 2];
  return expandRows(steps, at::arange(rows)).expand(steps.sizes);
}

TEST(Steps, OfWholeTensors) {
  Tensor dense = at::zeros({2, 3, 5});
  dense[0][1].narrow(0, 2, 2).fill_(1);
  dense[1][2][0] = 7;
  std::optional<Steps> steps = fromDense(dense);
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->ends.size(-1), 3);
  EXPECT_TRUE(toWhole(*steps).equal(dense));
  // Of many elements, by parts of the rows.
  Tensor large = at::ones({1, 3000, 1000}, at::kBool).tril(500);
  large[0][7].narrow(0, 3, 5).logical_not_();
  steps = fromDense(large);
  ASSERT_TRUE(steps);
  EXPECT_TRUE(toWhole(*steps).equal(large));
  // More pieces than rows of masks have.
  EXPECT_FALSE(fromDense(at::arange(kMaxPieces + 1).view({1, -1})));
  EXPECT_TRUE(fromDense(at::arange(kMaxPieces).view({1, -1})));
}

TEST(Steps, ColumnsThatFallAreNotCompared) {
  Tensor rows = at::arange(4).view({4, 1});
  EXPECT_TRUE(compareSorted("lt", rows, at::arange(6).view({1, 6}), {4, 6}));
  EXPECT_FALSE(
      compareSorted("lt", rows, at::arange(6).flip(0).view({1, 6}), {4, 6}));
  EXPECT_FALSE(compareSorted("lt", rows.to(at::kFloat) / 0,
                             at::arange(6).view({1, 6}), {4, 6}));
}

/// A random mask of the operators that models write them with, queries by keys.
class Generator {
public:
  Generator(uint64_t seed, int64_t queries, int64_t keys)
      : random(seed), queries(queries), keys(keys) {}

  Tensor make(int depth) {
    if (depth == 0)
      return leaf();
    switch (pick(9)) {
    case 0:
      return make(depth - 1) & make(depth - 1);
    case 1:
      return make(depth - 1) | make(depth - 1);
    case 2:
      return make(depth - 1).logical_not();
    case 3:
      return make(depth - 1).logical_xor(make(depth - 1));
    case 4:
      return make(depth - 1).triu(pick(7) - 3);
    case 5:
      return make(depth - 1).tril(pick(7) - 3);
    case 6:
      return at::where(make(depth - 1), make(depth - 1), leaf());
    case 7:
      return make(depth - 1)
          .to(at::kFloat)
          .masked_fill(leaf(), 0)
          .to(at::kBool);
    default: {
      // One more row and column, of which the mask is a part.
      ++queries, ++keys;
      Tensor larger = make(depth - 1);
      int64_t row = pick(2), column = pick(2);
      --queries, --keys;
      return larger.slice(-2, row, row + queries)
          .slice(-1, column, column + keys);
    }
    }
  }

private:
  int64_t pick(int64_t count) { return int64_t(random() % uint64_t(count)); }

  Tensor leaf() {
    Tensor query = positions(queries).view({1, 1, queries, 1});
    Tensor key = positions(keys).view({1, 1, 1, keys});
    Tensor both = positions(2).view({2, 1, 1, 1});
    switch (pick(8)) {
    case 0:
      return key.le(query + (pick(5) - 2)).expand({2, 1, queries, keys});
    case 1:
      return key.gt(query - pick(6)).expand({2, 1, queries, keys});
    case 2:
      return key.floor_divide(3)
          .eq(query.floor_divide(3))
          .expand({2, 1, queries, keys});
    case 3:
      return key.lt(pick(keys)).expand({2, 1, queries, keys});
    case 4:
      return query.ne(key).expand({2, 1, queries, keys});
    case 5:
      return key.lt(query + both);
    case 6:
      return query.lt(pick(queries)).expand({2, 1, queries, keys});
    default:
      return at::full({2, 1, queries, keys}, pick(2) == 1,
                      at::device(at::kMeta).dtype(at::kBool));
    }
  }

  std::mt19937_64 random;
  int64_t queries, keys;
};

TEST(Steps, OfRandomMasksAreThese) {
  int found = 0, cases = 500;
  for (int seed = 0; seed < cases; ++seed) {
    int64_t queries = 1 + seed % 13, keys = 2 + seed % 11;
    Recorded recorded = record([&](const Tensor &) {
      return Generator(uint64_t(seed), queries, keys).make(1 + seed % 4);
    });
    ConstantValues whole(*recorded.graph);
    Tensor dense = whole.getWhole(recorded.value);
    ASSERT_TRUE(dense.defined()) << seed;
    ConstantValues pieces(*recorded.graph, 2 * std::max(queries, keys) + 8);
    std::optional<Steps> steps = pieces.getSteps(recorded.value);
    Tensor rows = at::arange(queries - 1, -1, -1);
    if (Tensor some = pieces.getRows(recorded.value, rows); some.defined())
      EXPECT_TRUE(some.expand_as(dense).equal(dense.flip(-2))) << seed;
    if (!steps)
      continue;
    ++found;
    EXPECT_EQ(steps->sizes, dense.sizes().vec()) << seed;
    EXPECT_TRUE(toWhole(*steps).equal(dense)) << seed;
    std::optional<VisibleKeys> visible = findVisible(*steps);
    Tensor key = at::arange(keys);
    if (visible) {
      Tensor inside = (key >= visible->begin.unsqueeze(-1))
                          .logical_and(key < visible->end.unsqueeze(-1));
      EXPECT_TRUE(inside.expand_as(dense).equal(dense)) << seed;
    }
  }
  // Those of too many pieces, and columns that are no range, are few.
  EXPECT_GT(found, cases * 9 / 10);
}

} // namespace
