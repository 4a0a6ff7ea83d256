//===- BlockAttentionTest.cpp - Attention of blocks of queries ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/BlockAttention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <gtest/gtest.h>

#include <random>

using namespace fsdp::meta;

namespace {

MaskReading window(int64_t length, int64_t left, int64_t right) {
  Tensor at = at::arange(length);
  return {MaskForm::Window, (at - left).clamp_min(0),
          (at + right + 1).clamp_max(length)};
}

Tensor spell(const Tensor &begin, const Tensor &end, int64_t keys) {
  Tensor key = at::arange(keys);
  return (key >= begin.unsqueeze(-1)).logical_and(key < end.unsqueeze(-1));
}

int64_t countProducts(const std::vector<AttentionBlock> &blocks) {
  int64_t products = 0;
  for (const AttentionBlock &block : blocks)
    products += block.queries() * block.keys();
  return products;
}

/// Output and gradients, in double precision, by blocks and with the mask;
/// false if there are no blocks.
bool expectEqual(const MaskReading &mask, int64_t keys,
                 const std::string &name) {
  SCOPED_TRACE(name);
  std::vector<AttentionBlock> blocks = chooseBlocks(mask, keys);
  if (blocks.empty())
    return false;
  int64_t queries = mask.begin.size(0);
  auto make = [](int64_t length, int64_t heads) {
    return at::randn({2, heads, length, 8}, at::kDouble).requires_grad_();
  };
  Tensor query = make(queries, 4), key = make(keys, 2), value = make(keys, 2);
  auto attend = [](const Tensor &q, const Tensor &k, const Tensor &v,
                   const std::optional<Tensor> &seen, bool causal) {
    return at::scaled_dot_product_attention(q, k, v, seen, 0.0, causal,
                                            std::nullopt, /*enable_gqa=*/true);
  };
  Tensor whole = attend(query, key, value, spell(mask.begin, mask.end, keys),
                        /*causal=*/false);
  Tensor cut = attendBlocks(
      blocks, query, key, value,
      [&](const AttentionBlock &block, const Tensor &q, const Tensor &k,
          const Tensor &v) {
        EXPECT_EQ(q.size(2), block.queries());
        EXPECT_EQ(k.size(2), block.keys());
        std::optional<Tensor> seen;
        if (block.form == MaskForm::Ranges)
          seen = spell(block.begin, block.end, block.keys());
        return attend(q, k, v, seen, block.form == MaskForm::Causal);
      });
  EXPECT_TRUE(at::allclose(whole, cut));
  Tensor weight = at::randn_like(whole);
  std::vector<Tensor> operands = {query, key, value};
  auto expected = torch::autograd::grad({whole}, operands, {weight});
  auto found = torch::autograd::grad({cut}, operands, {weight});
  for (size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(at::allclose(expected[i], found[i])) << "gradient " << i;
  return true;
}

TEST(BlockAttention, EqualsAttentionWithTheMask) {
  for (int64_t length : {40, 100, 256, 300})
    for (auto [left, right] : {std::pair(0, 0), {3, 0}, {5, 5}, {0, 9}})
      EXPECT_TRUE(expectEqual(window(length, left, right), length,
                              "window of " + std::to_string(length) + ", " +
                                  std::to_string(left) + ", " +
                                  std::to_string(right)));
  Tensor at = at::arange(96);
  EXPECT_TRUE(expectEqual({MaskForm::Prefix, at::zeros_like(at),
                           at::maximum(at + 1, at::full_like(at, 20))},
                          96, "prefix"));
  EXPECT_TRUE(expectEqual({MaskForm::Chunks, at.div(24, "floor") * 24, at + 1},
                          96, "chunks"));
}

TEST(BlockAttention, EqualsAttentionWithAnyRanges) {
  std::mt19937 random(7);
  int cut = 0;
  for (int round = 0; round < 60; ++round) {
    int64_t queries = 20 + random() % 200, keys = 20 + random() % 200;
    // Documents of any length, which see themselves and a few keys more.
    std::vector<int64_t> begin, end;
    while (int64_t(begin.size()) < queries) {
      int64_t first = random() % (keys - 4), length = 1 + random() % 12;
      for (int64_t i = 0, rows = 1 + random() % 40; i < rows; ++i) {
        begin.push_back(std::min<int64_t>(first + random() % 4, keys - 1));
        end.push_back(std::min<int64_t>(begin.back() + length, keys));
      }
    }
    begin.resize(queries);
    end.resize(queries);
    cut += expectEqual({MaskForm::Ranges, at::tensor(begin), at::tensor(end)},
                       keys, "round " + std::to_string(round));
  }
  EXPECT_GE(cut, 20);
}

TEST(BlockAttention, MultipliesLittleMoreThanIsSeen) {
  // Of 8,192 queries each sees 512 keys; a block's queries see twice as many.
  std::vector<AttentionBlock> blocks = chooseBlocks(window(8192, 511, 0), 8192);
  EXPECT_LE(int64_t(blocks.size()), kMostBlocks);
  EXPECT_LE(countProducts(blocks), 8192 * 1152);
  // Wide windows are hardly more than causal.
  EXPECT_LE(countProducts(chooseBlocks(window(8192, 8000, 0), 8192)),
            8192 * 8192 * 9 / 16);
  // All blocks behind the first have the same mask, which is made once.
  for (size_t i = 2; i < blocks.size(); ++i)
    EXPECT_TRUE(blocks[i].begin.equal(blocks[1].begin));
  for (const AttentionBlock &block : blocks) {
    EXPECT_EQ(block.firstKey % 128, 0);
    EXPECT_EQ(block.endKey % 128, 0);
  }
}

TEST(BlockAttention, ChunksNeedNoMask) {
  Tensor at = at::arange(4096);
  std::vector<AttentionBlock> blocks = chooseBlocks(
      {MaskForm::Chunks, at.div(1024, "floor") * 1024, at + 1}, 4096);
  ASSERT_EQ(blocks.size(), 4u);
  for (const AttentionBlock &block : blocks)
    EXPECT_EQ(block.form, MaskForm::Causal);
}

TEST(BlockAttention, WhatHardlySavesIsLeftWhole) {
  Tensor at = at::arange(64);
  EXPECT_TRUE(chooseBlocks(window(64, 60, 60), 64).empty());
  EXPECT_TRUE(chooseBlocks(window(16, 2, 0), 16).empty());
  // The last query sees all.
  Tensor begin = at::zeros_like(at), end = at + 1;
  EXPECT_FALSE(chooseBlocks({MaskForm::Ranges, begin, end}, 64).empty());
  EXPECT_TRUE(chooseBlocks({MaskForm::Ranges, begin, at::full_like(at, 64)}, 64)
                  .empty());
}

} // namespace
