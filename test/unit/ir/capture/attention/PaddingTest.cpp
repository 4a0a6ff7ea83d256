//===- PaddingTest.cpp - Keys that data hides from all queries ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/Padding.h"
#include "test/unit/ir/capture/attention/Recorded.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using meta::MaskForm;

namespace {

constexpr int64_t kBatch = 2;

Tensor query(int64_t n) { return positions(n).view({1, 1, n, 1}); }
Tensor key(int64_t n) { return positions(n).view({1, 1, 1, n}); }
Tensor causal(int64_t n) { return key(n).le(query(n)); }

/// As transformers' masking_utils, of an input of ones and zeros.
Tensor asTransformers(const Tensor &input, int64_t n) {
  Tensor ones = input.to(at::kLong).view({kBatch, n}).to(at::kBool);
  Tensor batch = positions(kBatch).view({kBatch, 1, 1, 1});
  Tensor all = at::ones({}, at::device(at::kMeta).dtype(at::kBool));
  return all.bitwise_and(causal(n))
      .bitwise_and(ones.index({batch, key(n)}))
      .expand({kBatch, -1, n, n});
}

/// An input of true and false, [2, 1, 1, length].
using Make = std::function<Tensor(const Tensor &input, int64_t length)>;

std::optional<Padding> find(const Make &make, int64_t length,
                            int64_t batch = kBatch) {
  Recorded recorded =
      record([&](const Tensor &input) { return make(input, length); }, length);
  ConstantValues values(*recorded.graph);
  return findPadding(*recorded.graph, values, recorded.value, batch, length,
                     length);
}

TEST(Padding, HoweverItIsWritten) {
  struct Way {
    Make make;
    MaskForm within;
    size_t parts = 1;
  };
  const Way ways[] = {
      {asTransformers, MaskForm::Causal},
      {[](const Tensor &x, int64_t n) { return x.expand({kBatch, 1, n, n}); },
       MaskForm::All},
      {[](const Tensor &x, int64_t n) {
         return x.expand({kBatch, 1, n, n}).expand({kBatch, 3, n, n});
       },
       MaskForm::All},
      // As transformers' masks of both directions.
      {[](const Tensor &x, int64_t n) { return query(n).ge(0) & x; },
       MaskForm::All},
      {[](const Tensor &x, int64_t n) {
         return causal(n).logical_and(x.to(at::kLong).eq(1));
       },
       MaskForm::Causal},
      {[](const Tensor &x, int64_t n) {
         return x.logical_not().logical_not() & causal(n) & key(n).ge(0);
       },
       MaskForm::Causal},
      // Of two vectors, one of them for all rows.
      {[](const Tensor &x, int64_t n) {
         Tensor first = x.to(at::kLong).sum(0, true).gt(0);
         return (x.expand({kBatch, 1, n, n}) & causal(n)) & first;
       },
       MaskForm::Causal, 2},
      {[](const Tensor &x, int64_t n) {
         Tensor first = x.view({kBatch, n}).any(0);
         return first & causal(n);
       },
       MaskForm::Causal},
  };
  for (int64_t length : {2, 9, 150})
    for (size_t i = 0; i < std::size(ways); ++i) {
      SCOPED_TRACE("way " + std::to_string(i) + ", length " +
                   std::to_string(length));
      std::optional<Padding> found = find(ways[i].make, length);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->within, ways[i].within);
      EXPECT_EQ(found->seen.size(), ways[i].parts);
    }
}

TEST(Padding, NearMissesAreNone) {
  const Make ways[] = {
      // Of queries, and of both.
      [](const Tensor &x, int64_t n) {
        return x.view({kBatch, 1, n, 1}) & causal(n);
      },
      [](const Tensor &x, int64_t n) {
        return x & x.view({kBatch, 1, n, 1}) & causal(n);
      },
      [](const Tensor &x, int64_t n) {
        return x.view({kBatch, 1, n, 1}).expand({kBatch, 1, n, n});
      },
      // Of heads.
      [](const Tensor &x, int64_t n) {
        return x.view({1, kBatch, 1, n}) & causal(n);
      },
      [](const Tensor &x, int64_t n) {
        return (x & causal(n)).view({1, kBatch, n, n});
      },
      [](const Tensor &x, int64_t n) {
        return (x & causal(n)).squeeze(1) & causal(n).squeeze(0);
      },
      // Or, either of both, none.
      [](const Tensor &x, int64_t n) { return x | causal(n); },
      [](const Tensor &x, int64_t n) { return x.ne(causal(n)); },
      [](const Tensor &x, int64_t n) { return (x & causal(n)).logical_not(); },
      [](const Tensor &x, int64_t n) {
        return at::where(x, causal(n), key(n).eq(query(n)));
      },
      // Beside what kernels have no flag for.
      [](const Tensor &x, int64_t n) {
        return x & causal(n) & key(n).gt(query(n) - 3);
      },
      [](const Tensor &x, int64_t n) { return x & key(n).lt(query(n)); },
      [](const Tensor &x, int64_t n) { return x & key(n).ge(query(n)); },
      [](const Tensor &x, int64_t n) { return x & key(n).le(query(n) + 1); },
      [](const Tensor &x, int64_t n) { return x & (causal(n) | key(n).lt(4)); },
      // One key of one query more, and fewer.
      [](const Tensor &x, int64_t n) {
        return x & (causal(n) | (key(n).eq(7) & query(n).eq(5)));
      },
      [](const Tensor &x, int64_t n) {
        return x & causal(n) & (key(n).ne(3) | query(n).ne(5));
      },
      // Documents beside it.
      [](const Tensor &x, int64_t n) {
        Tensor ids = x.view({kBatch, n}).cumsum(-1);
        return x & causal(n) &
               ids.unsqueeze(-1).eq(ids.unsqueeze(-2)).unsqueeze(1);
      },
      // Numbers that are added.
      [](const Tensor &x, int64_t n) {
        return x.to(at::kFloat) + causal(n).to(at::kFloat);
      },
      // Nothing of data.
      [](const Tensor &x, int64_t n) { return x.eq(x) | causal(n); },
      [](const Tensor &, int64_t n) {
        return causal(n).expand({kBatch, 1, n, n});
      },
      // The rows are not the batch's.
      [](const Tensor &x, int64_t n) {
        return at::cat({x, x}).expand({2 * kBatch, 1, n, n});
      },
  };
  for (size_t i = 0; i < std::size(ways); ++i)
    EXPECT_FALSE(find(ways[i], 12)) << "way " << i;
  EXPECT_FALSE(find(asTransformers, 12, 3 * kBatch));
}

} // namespace
