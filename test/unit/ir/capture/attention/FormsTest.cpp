//===- FormsTest.cpp - Masks that kernels have a flag for -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/MaskForms.h"
#include "test/unit/ir/capture/attention/Recorded.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using meta::MaskForm;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const auto kMetaBool = at::device(at::kMeta).dtype(at::kBool);
const auto kMetaFloat = at::device(at::kMeta).dtype(at::kFloat);

using Make = std::function<Tensor(int64_t queries, int64_t keys)>;

/// By whole tensors, and by pieces alone: vectors are as many elements as a
/// small tensor may have there. Both must say the same.
MaskForm formOf(const Make &make, int64_t queries, int64_t keys) {
  Recorded recorded =
      record([&](const Tensor &) { return make(queries, keys); });
  ConstantValues whole(*recorded.graph);
  MaskForm form = readForm(whole, recorded.value, queries, keys);
  ConstantValues pieces(*recorded.graph, 2 * std::max(queries, keys) + 2);
  EXPECT_EQ(readForm(pieces, recorded.value, queries, keys), form)
      << "by pieces, " << queries << " x " << keys;
  return form;
}

Tensor query(int64_t n) { return positions(n).view({1, 1, n, 1}); }
Tensor key(int64_t n) { return positions(n).view({1, 1, 1, n}); }

/// As transformers' masking_utils computes it: positions, documents of which
/// there is one, all batches.
Tensor asTransformers(int64_t queries, int64_t keys) {
  Tensor all = positions(queries).unsqueeze(0).expand({2, -1});
  Tensor first = all.slice(1, 0, 1) - 1;
  Tensor longer = at::cat({first, all}, -1);
  Tensor document =
      (longer.slice(-1, 1) - longer.slice(-1, 0, -1)).ne(1).cumsum(-1);
  Tensor batch = positions(2).view({2, 1, 1, 1});
  Tensor causal =
      at::ones({}, kMetaBool).bitwise_and(key(keys).le(query(queries)));
  using at::indexing::TensorIndex;
  Tensor same = document.index({batch, query(queries)})
                    .eq(document.index({batch, key(keys)}));
  return causal.bitwise_and(same);
}

TEST(MaskForms, CausalHoweverItIsWritten) {
  const Make ways[] = {
      [](int64_t q, int64_t k) { return key(k).le(query(q)); },
      [](int64_t q, int64_t k) { return query(q).ge(key(k)); },
      [](int64_t q, int64_t k) { return query(q).lt(key(k)).logical_not(); },
      [](int64_t q, int64_t k) { return key(k).gt(query(q)).bitwise_not(); },
      [](int64_t q, int64_t k) { return key(k).lt(query(q) + 1); },
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)).expand({3, 2, q, k});
      },
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) & key(k).ge(0) & query(q).ge(0);
      },
      [](int64_t q, int64_t k) { return at::ones({q, k}, kMetaBool).tril(); },
      [](int64_t q, int64_t k) {
        return at::full({q, k}, -kInfinity, kMetaFloat).triu(1);
      },
      [](int64_t q, int64_t k) {
        return at::ones({q, k}, kMetaBool)
            .triu(1)
            .logical_not()
            .view({1, 1, q, k});
      },
      [](int64_t q, int64_t k) {
        Tensor added =
            at::full({q, k}, std::numeric_limits<float>::lowest(), kMetaFloat)
                .triu(1);
        // transformers of 2024: the same once more, by positions.
        return (added * key(k).view({k}).gt(query(q).view({q, 1})))
            .unsqueeze(0)
            .unsqueeze(0)
            .expand({2, 1, -1, -1})
            .slice(-1, 0, k);
      },
      [](int64_t q, int64_t k) {
        return at::zeros({q, k}, kMetaFloat)
            .masked_fill(key(k).gt(query(q)).view({q, k}), -kInfinity)
            .to(at::kBFloat16);
      },
      [](int64_t q, int64_t k) {
        return at::where(key(k).le(query(q)), at::zeros({}, kMetaFloat),
                         at::full({}, -kInfinity, kMetaFloat));
      },
  };
  for (auto [q, k] : {std::pair(7, 7), {12, 5}, {5, 12}, {1, 4}, {33, 33}})
    for (size_t i = 0; i < std::size(ways); ++i) {
      SCOPED_TRACE("way " + std::to_string(i));
      MaskForm form = formOf(ways[i], q, k);
      // One query sees the first key alone.
      EXPECT_EQ(form, MaskForm::Causal)
          << "way " << i << ", " << q << " x " << k;
    }
  EXPECT_EQ(formOf(asTransformers, 9, 9), MaskForm::Causal);
}

TEST(MaskForms, AllHoweverItIsWritten) {
  const Make ways[] = {
      [](int64_t q, int64_t k) { return at::ones({q, k}, kMetaBool); },
      [](int64_t q, int64_t k) {
        return at::zeros({1, 1, q, k}, kMetaFloat).expand({2, 1, q, k});
      },
      [](int64_t q, int64_t k) { return key(k).ge(0) & query(q).ge(0); },
      [](int64_t q, int64_t k) { return key(k).lt(query(q) + k); },
      [](int64_t q, int64_t k) {
        return (1 - at::ones({2, k}, kMetaFloat).view({2, 1, 1, k})) *
               double(std::numeric_limits<float>::lowest());
      },
  };
  for (auto [q, k] : {std::pair(7, 7), {12, 5}, {5, 12}})
    for (size_t i = 0; i < std::size(ways); ++i)
      EXPECT_EQ(formOf(ways[i], q, k), MaskForm::All) << "way " << i;
}

TEST(MaskForms, NearMissesAreNone) {
  const Make misses[] = {
      // The diagonal itself is hidden: the first query sees nothing.
      [](int64_t q, int64_t k) { return key(k).lt(query(q)); },
      [](int64_t q, int64_t k) { return key(k).le(query(q) + 1); },
      // Causal as seen from the last key.
      [](int64_t q, int64_t k) { return key(k).le(query(q) + (k - q) + 3); },
      // Windows.
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) & key(k).gt(query(q) - 3);
      },
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) & key(k).gt(query(q) - (q - 1));
      },
      // A prefix that all see.
      [](int64_t q, int64_t k) { return key(k).le(query(q)) | key(k).lt(2); },
      // Chunks, and documents.
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) &
               key(k).floor_divide(4).eq(query(q).floor_divide(4));
      },
      // Every other key.
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) & key(k).remainder(2).eq(0);
      },
      // Another batch or head sees something else.
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) & positions(2).view({2, 1, 1, 1}).ge(1);
      },
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) |
               (positions(2).view({1, 2, 1, 1}).ge(1) & key(k).lt(2));
      },
      // Numbers that weigh.
      [](int64_t q, int64_t k) {
        return at::full({q, k}, -1e9, kMetaFloat).triu(1);
      },
      [](int64_t q, int64_t k) {
        return at::full({q, k}, -kInfinity, kMetaFloat).triu(1) + 0.5;
      },
      [](int64_t q, int64_t k) {
        return (key(k) - query(q)).to(at::kFloat) * 0.25;
      },
      // Numbers that are no mask.
      [](int64_t q, int64_t k) { return key(k).le(query(q)).to(at::kLong); },
  };
  for (auto [q, k] : {std::pair(8, 8), {7, 9}})
    for (size_t i = 0; i < std::size(misses); ++i)
      EXPECT_EQ(formOf(misses[i], q, k), MaskForm::Unknown) << "miss " << i;
  // Each element of a constant mask counts.
  Tensor causal = at::ones({6, 6}, at::kBool).tril();
  EXPECT_EQ(formOf([&](int64_t, int64_t) { return causal.clone(); }, 6, 6),
            MaskForm::Causal);
  for (int64_t i = 0; i < 36; ++i) {
    Tensor flipped = causal.clone();
    flipped.view({36})[i].logical_not_();
    EXPECT_EQ(formOf([&](int64_t, int64_t) { return flipped.clone(); }, 6, 6),
              MaskForm::Unknown)
        << "element " << i;
  }
}

TEST(MaskForms, WhatDependsOnDataIsNone) {
  Recorded recorded = record(
      [&](const Tensor &input) { return key(8).le(query(8)) & input; }, 8);
  ConstantValues values(*recorded.graph);
  EXPECT_EQ(readForm(values, recorded.value, 8, 8), MaskForm::Unknown);
  // Of what a tensor is like, only sizes count.
  recorded = record(
      [&](const Tensor &input) {
        return at::zeros_like(input.to(at::kFloat)).expand({2, 1, 8, 8});
      },
      8);
  ConstantValues like(*recorded.graph);
  EXPECT_EQ(readForm(like, recorded.value, 8, 8), MaskForm::All);
}

TEST(MaskForms, AMillionPositionsCostVectors) {
  auto begin = std::chrono::steady_clock::now();
  for (int64_t n : {int64_t(8192), int64_t(1) << 20}) {
    Recorded recorded =
        record([&](const Tensor &) { return asTransformers(n, n); });
    ConstantValues values(*recorded.graph);
    EXPECT_EQ(readForm(values, recorded.value, n, n), MaskForm::Causal) << n;
    recorded = record([&](const Tensor &) {
      return at::full({n, n}, -kInfinity, kMetaFloat).triu(1);
    });
    ConstantValues cut(*recorded.graph);
    EXPECT_EQ(readForm(cut, recorded.value, n, n), MaskForm::Causal) << n;
  }
  // An n x n tensor of bytes would be a terabyte.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

} // namespace
