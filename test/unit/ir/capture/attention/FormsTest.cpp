//===- FormsTest.cpp - Which keys masks let be seen -----------------------===//
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
#include <random>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using meta::MaskForm;
using meta::MaskReading;

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
  MaskForm form = readMask(whole, recorded.value, queries, keys).form;
  ConstantValues pieces(*recorded.graph, 2 * std::max(queries, keys) + 2);
  EXPECT_EQ(readMask(pieces, recorded.value, queries, keys).form, form)
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

TEST(MaskForms, FormsWithoutAFlagAreTold) {
  struct Case {
    MaskForm form;
    Make make;
  };
  const Case cases[] = {
      // As Mistral's, in the order in which transformers writes it.
      {MaskForm::Window,
       [](int64_t q, int64_t k) {
         return key(k).gt(query(q) - 3) & key(k).le(query(q));
       }},
      {MaskForm::Window,
       [](int64_t q, int64_t k) {
         return key(k).gt(query(q) - 2) & key(k).le(query(q) + 1);
       }},
      // The last query does not see the first key.
      {MaskForm::Window,
       [](int64_t q, int64_t k) {
         return key(k).le(query(q)) & key(k).gt(query(q) - (q - 1));
       }},
      {MaskForm::Window,
       [](int64_t q, int64_t k) { return key(k).le(query(q) + 1); }},
      {MaskForm::Window,
       [](int64_t q, int64_t k) {
         return at::full({q, k}, -kInfinity, kMetaFloat).triu(2);
       }},
      {MaskForm::Prefix,
       [](int64_t q, int64_t k) { return key(k).le(query(q)) | key(k).lt(3); }},
      {MaskForm::Chunks,
       [](int64_t q, int64_t k) {
         return key(k).le(query(q)) &
                key(k).floor_divide(4).eq(query(q).floor_divide(4));
       }},
      // Documents, of which each query sees all.
      {MaskForm::Ranges,
       [](int64_t q, int64_t k) {
         return key(k).floor_divide(4).eq(query(q).floor_divide(4));
       }},
      // Padding that is the same in all rows.
      {MaskForm::Ranges,
       [](int64_t q, int64_t k) { return key(k).lt(k - 2) & query(q).ge(0); }},
  };
  for (auto [q, k] : {std::pair(8, 8), {23, 23}})
    for (const Case &each : cases)
      EXPECT_EQ(formOf(each.make, q, k), each.form)
          << "case " << &each - cases << ", " << q << " x " << k;
}

TEST(MaskForms, WhatIsNoRangeIsNone) {
  const Make misses[] = {
      // The diagonal itself is hidden: the first query sees nothing.
      [](int64_t q, int64_t k) { return key(k).lt(query(q)); },
      // Every other key.
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) & key(k).remainder(2).eq(0);
      },
      // All but a window.
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) & key(k).ne(query(q) - 2);
      },
      // Another batch or head sees something else.
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) & positions(2).view({2, 1, 1, 1}).ge(1);
      },
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) |
               (positions(2).view({1, 2, 1, 1}).ge(1) & key(k).lt(2));
      },
      [](int64_t q, int64_t k) {
        return key(k).le(query(q)) &
               key(k).gt(query(q) - 3 - positions(2).view({2, 1, 1, 1}));
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
}

/// That what is read is `mask` itself, or nothing.
MaskReading expectExact(const Tensor &mask) {
  int64_t queries = mask.size(0), keys = mask.size(1);
  Recorded recorded = record([&](const Tensor &) { return mask.clone(); });
  ConstantValues values(*recorded.graph);
  MaskReading reading = readMask(values, recorded.value, queries, keys);
  if (reading.form == MaskForm::Unknown)
    return reading;
  Tensor at = at::arange(keys);
  EXPECT_TRUE(
      ((at >= reading.begin.unsqueeze(-1)) & (at < reading.end.unsqueeze(-1)))
          .equal(mask))
      << mask;
  return reading;
}

TEST(MaskForms, EachElementCounts) {
  Tensor at = at::arange(9);
  Tensor apart = at.unsqueeze(-1) - at;
  Tensor causal = apart >= 0;
  const std::pair<MaskForm, Tensor> masks[] = {
      {MaskForm::Causal, causal},
      {MaskForm::All, at::ones({9, 9}, at::kBool)},
      {MaskForm::Window, causal & (apart < 4)},
      {MaskForm::Prefix, causal | (at < 3)},
      {MaskForm::Chunks,
       causal & (at.div(3, "floor") == at.div(3, "floor").unsqueeze(-1))},
  };
  for (const auto &[form, mask] : masks) {
    EXPECT_EQ(expectExact(mask).form, form);
    for (int64_t i = 0; i < 81; ++i) {
      Tensor flipped = mask.clone();
      flipped.view({81})[i].logical_not_();
      // It may be of another form, such as a prefix of two keys.
      EXPECT_NE(expectExact(flipped).form, form)
          << "element " << i << " of form " << int(form);
    }
  }
}

TEST(MaskForms, CompositionsAreReadExactly) {
  std::mt19937 random(3);
  size_t read = 0;
  for (int round = 0; round < 500; ++round) {
    int64_t length = 3 + random() % 14;
    Tensor at = at::arange(length);
    Tensor apart = at.unsqueeze(-1) - at;
    auto some = [&] { return int64_t(random() % length); };
    auto part = [&]() -> Tensor {
      int64_t chunk = 1 + some();
      Tensor document = (at.remainder(chunk) == 0).cumsum(0);
      switch (random() % 6) {
      case 0:
        return apart >= 0;
      case 1:
        return apart <= some();
      case 2:
        return apart >= -some();
      case 3:
        return (at < some()).expand({length, -1});
      case 4:
        return document == document.unsqueeze(-1);
      default:
        return (at >= some()).unsqueeze(-1).expand({-1, length});
      }
    };
    Tensor mask = part();
    for (int64_t i = 0, parts = random() % 3; i < parts; ++i)
      mask = random() % 3 ? mask & part() : mask | part();
    read += expectExact(mask.contiguous()).form != MaskForm::Unknown;
  }
  EXPECT_GT(read, 100u);
}

TEST(MaskForms, WhatDependsOnDataIsNone) {
  Recorded recorded = record(
      [&](const Tensor &input) { return key(8).le(query(8)) & input; }, 8);
  ConstantValues values(*recorded.graph);
  EXPECT_EQ(readMask(values, recorded.value, 8, 8).form, MaskForm::Unknown);
  // Of what a tensor is like, only sizes count.
  recorded = record(
      [&](const Tensor &input) {
        return at::zeros_like(input.to(at::kFloat)).expand({2, 1, 8, 8});
      },
      8);
  ConstantValues like(*recorded.graph);
  EXPECT_EQ(readMask(like, recorded.value, 8, 8).form, MaskForm::All);
}

// Also where a tensor of all distances would be too large to look at.
TEST(MaskForms, DistancesAgainstANumberAreRead) {
  struct Case {
    MaskForm form;
    Make make;
  };
  const Case cases[] = {
      {MaskForm::Causal,
       [](int64_t q, int64_t k) { return (query(q) - key(k)).ge(0); }},
      {MaskForm::Window,
       [](int64_t q, int64_t k) {
         Tensor far = query(q) - key(k);
         return far.ge(0) & far.lt(5);
       }},
      {MaskForm::Window,
       [](int64_t q, int64_t k) {
         Tensor far = key(k) - query(q);
         return far.le(0) & far.gt(-5);
       }},
      // As ModernBERT's.
      {MaskForm::Window,
       [](int64_t q, int64_t k) { return (query(q) - key(k)).abs().le(4); }},
      {MaskForm::Window,
       [](int64_t q, int64_t k) {
         return (key(k) - query(q)).abs().ge(4).logical_not();
       }},
      {MaskForm::Window,
       [](int64_t q, int64_t k) {
         return at::full({}, 4, kMetaBool.dtype(at::kLong))
             .ge((query(q) - key(k)).abs());
       }},
      // Keys on both sides, none between.
      {MaskForm::Unknown,
       [](int64_t q, int64_t k) { return (query(q) - key(k)).abs().gt(4); }},
      {MaskForm::Unknown,
       [](int64_t q, int64_t k) { return (query(q) - key(k)).ne(4); }},
  };
  for (int64_t n : {int64_t(19), int64_t(8192), int64_t(1) << 15})
    for (const Case &each : cases)
      EXPECT_EQ(formOf(each.make, n, n), each.form)
          << "case " << &each - cases << ", " << n;
}

TEST(MaskForms, AMillionPositionsCostVectors) {
  auto begin = std::chrono::steady_clock::now();
  for (int64_t n : {int64_t(8192), int64_t(1) << 20}) {
    Recorded recorded =
        record([&](const Tensor &) { return asTransformers(n, n); });
    ConstantValues values(*recorded.graph);
    EXPECT_EQ(readMask(values, recorded.value, n, n).form, MaskForm::Causal)
        << n;
    recorded = record([&](const Tensor &) {
      return at::full({n, n}, -kInfinity, kMetaFloat).triu(1);
    });
    ConstantValues cut(*recorded.graph);
    EXPECT_EQ(readMask(cut, recorded.value, n, n).form, MaskForm::Causal) << n;
  }
  // An n x n tensor of bytes would be a terabyte.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

} // namespace
