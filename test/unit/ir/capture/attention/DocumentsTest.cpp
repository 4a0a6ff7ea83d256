//===- DocumentsTest.cpp - Masks that keep documents apart ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/Documents.h"
#include "test/unit/ir/capture/attention/Recorded.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using meta::MaskForm;

namespace {

constexpr int64_t kBatch = 2;

Tensor query(int64_t n) { return positions(n).view({1, 1, n, 1}); }
Tensor key(int64_t n) { return positions(n).view({1, 1, 1, n}); }

/// Numbers of documents out of where they begin, [batch, length].
Tensor number(const Tensor &input) {
  return input.view({kBatch, -1}).cumsum(-1);
}

Tensor same(const Tensor &ids) {
  return ids.unsqueeze(-1).eq(ids.unsqueeze(-2)).unsqueeze(1);
}

/// As transformers' masking_utils, of positions that begin again.
Tensor asTransformers(const Tensor &input, int64_t n) {
  Tensor ids = number(input);
  Tensor batch = positions(kBatch).view({kBatch, 1, 1, 1});
  Tensor causal = at::ones({}, at::device(at::kMeta).dtype(at::kBool))
                      .bitwise_and(key(n).le(query(n)));
  return causal
      .bitwise_and(ids.index({batch, query(n)}).eq(ids.index({batch, key(n)})))
      .expand({kBatch, -1, n, n});
}

/// An input of true and false, [2, 1, 1, length].
using Make = std::function<Tensor(const Tensor &input, int64_t length)>;

std::optional<Documents> find(const Make &make, int64_t length) {
  Recorded recorded =
      record([&](const Tensor &input) { return make(input, length); }, length);
  ConstantValues values(*recorded.graph);
  return findDocuments(*recorded.graph, values, recorded.value, kBatch, length);
}

TEST(Documents, HoweverTheyAreWritten) {
  struct Way {
    Make make;
    MaskForm within;
  };
  const Way ways[] = {
      {asTransformers, MaskForm::Causal},
      {[](const Tensor &x, int64_t) { return same(number(x)); }, MaskForm::All},
      {[](const Tensor &x, int64_t n) {
         return same(number(x)).logical_and(key(n).le(query(n)));
       },
       MaskForm::Causal},
      {[](const Tensor &x, int64_t n) {
         return key(n).le(query(n)) & key(n).gt(query(n) - 3) & same(number(x));
       },
       MaskForm::Window},
      {[](const Tensor &x, int64_t n) {
         Tensor window = key(n).gt(query(n) - 3) & key(n).lt(query(n) + 2);
         return (same(number(x)) & window).expand({kBatch, 1, n, n});
       },
       MaskForm::Window},
      {[](const Tensor &x, int64_t n) {
         Tensor ids = number(x).to(at::kInt) - 1;
         return same(ids) & key(n).le(query(n)) & query(n).ge(0);
       },
       MaskForm::Causal},
      // Of numbers, from the other side, twice.
      {[](const Tensor &x, int64_t n) {
         Tensor ids = x.to(at::kLong).view({kBatch, n}).cumsum(1);
         Tensor turned = ids.unsqueeze(1).eq(ids.unsqueeze(2)).unsqueeze(1);
         return turned & same(ids) & key(n).le(query(n));
       },
       MaskForm::Causal},
  };
  for (int64_t length : {2, 9, 150})
    for (size_t i = 0; i < std::size(ways); ++i) {
      SCOPED_TRACE("way " + std::to_string(i) + ", length " +
                   std::to_string(length));
      if (length == 2 && ways[i].within == MaskForm::Window)
        continue; // all or causal
      std::optional<Documents> found = find(ways[i].make, length);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->within.form, ways[i].within);
    }
}

TEST(Documents, NearMissesAreNone) {
  const Make ways[] = {
      // Numbers of data, which may come again.
      [](const Tensor &x, int64_t n) {
        return same(x.to(at::kLong).view({kBatch, n}));
      },
      [](const Tensor &x, int64_t n) {
        return same(number(x).neg()) & key(n).le(query(n));
      },
      [](const Tensor &x, int64_t) { return same(number(x).remainder(3)); },
      // Sums of numbers may fall.
      [](const Tensor &x, int64_t n) {
        return same((x.to(at::kLong) - 1).view({kBatch, n}).cumsum(-1));
      },
      // Along the batch.
      [](const Tensor &x, int64_t n) {
        return same(x.view({kBatch, n}).cumsum(0));
      },
      [](const Tensor &x, int64_t) {
        Tensor ids = number(x);
        return ids.unsqueeze(-1).ne(ids.unsqueeze(-2)).unsqueeze(1);
      },
      [](const Tensor &x, int64_t) {
        Tensor ids = number(x);
        return ids.unsqueeze(-1).ge(ids.unsqueeze(-2)).unsqueeze(1);
      },
      // Documents or in front.
      [](const Tensor &x, int64_t n) {
        return same(number(x)) | key(n).le(query(n));
      },
      // One further along.
      [](const Tensor &x, int64_t) {
        Tensor ids = number(x);
        Tensor shifted = at::cat({ids.slice(1, 1), ids.slice(1, 0, 1)}, 1);
        return ids.unsqueeze(-1).eq(shifted.unsqueeze(-2)).unsqueeze(1);
      },
      [](const Tensor &x, int64_t n) {
        Tensor batch = positions(kBatch).view({kBatch, 1, 1, 1});
        Tensor ids = number(x), other = (key(n) + 1).remainder(n);
        return ids.index({batch, query(n)}).eq(ids.index({batch, other}));
      },
      // Each row that of another.
      [](const Tensor &x, int64_t n) {
        Tensor batch = 1 - positions(kBatch).view({kBatch, 1, 1, 1});
        Tensor ids = number(x);
        return ids.index({batch, query(n)}).eq(ids.index({batch, key(n)}));
      },
      // Keys that data hides beside them.
      [](const Tensor &x, int64_t n) {
        return same(number(x)) & x & key(n).le(query(n));
      },
      // Of a prefix, of what is behind.
      [](const Tensor &x, int64_t n) {
        return same(number(x)) & (key(n).le(query(n)) | key(n).lt(4));
      },
      [](const Tensor &x, int64_t n) {
        return same(number(x)) & key(n).gt(query(n));
      },
      [](const Tensor &x, int64_t n) {
        return key(n).le(query(n)).expand({kBatch, 1, n, n}) & x.eq(x);
      },
  };
  for (size_t i = 0; i < std::size(ways); ++i)
    EXPECT_FALSE(find(ways[i], 12)) << "way " << i;
}

TEST(Documents, BoundsAreWhereTheyBegin) {
  Tensor ids =
      at::tensor({3, 3, 4, 4, 5, 7, 7, 7, 8, 8}, at::kLong).view({2, 5});
  // The second row begins one of its own, whatever its number.
  EXPECT_TRUE(makeBounds(ids, 7).equal(
      at::tensor({0, 2, 4, 5, 8, 10, 10, 10}, at::kInt)));
  EXPECT_TRUE(
      makeBounds(ids, 5).equal(at::tensor({0, 2, 4, 5, 8, 10}, at::kInt)));
  EXPECT_ANY_THROW(makeBounds(ids, 4));
  EXPECT_TRUE(makeBounds(at::zeros({2, 1}, at::kLong), 2)
                  .equal(at::tensor({0, 1, 2}, at::kInt)));
}

TEST(Documents, OfFixedLengths) {
  auto reading = [](std::vector<int64_t> begin, std::vector<int64_t> end) {
    return meta::MaskReading{MaskForm::Ranges, at::tensor(begin, at::kLong),
                             at::tensor(end, at::kLong)};
  };
  auto causal =
      findFixedDocuments(reading({0, 0, 2, 3, 3, 3}, {1, 2, 3, 4, 5, 6}));
  ASSERT_TRUE(causal);
  EXPECT_TRUE(causal->isCausal);
  EXPECT_TRUE(makeFixedBounds(*causal, 2)
                  .equal(at::tensor({0, 2, 3, 6, 8, 9, 12}, at::kInt)));
  auto whole =
      findFixedDocuments(reading({0, 0, 2, 3, 3, 3}, {2, 2, 3, 6, 6, 6}));
  ASSERT_TRUE(whole);
  EXPECT_FALSE(whole->isCausal);
  // One sees a key more, one fewer, one those of the document before.
  EXPECT_FALSE(
      findFixedDocuments(reading({0, 0, 2, 3, 3, 3}, {1, 2, 3, 4, 6, 6})));
  EXPECT_FALSE(
      findFixedDocuments(reading({0, 0, 2, 3, 3, 3}, {2, 2, 3, 6, 6, 5})));
  EXPECT_FALSE(
      findFixedDocuments(reading({0, 0, 1, 3, 3, 3}, {1, 2, 3, 4, 5, 6})));
}

} // namespace
