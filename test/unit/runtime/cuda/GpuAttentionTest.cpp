//===- GpuAttentionTest.cpp - Fused attention and its backward ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each kernel called as plans call it, with none for what they do not have,
// against attention as it is written down, on the same GPU.
//
//===----------------------------------------------------------------------===//

#include "GpuRank.h"
#include "NeedsGpu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;

namespace {

constexpr int64_t kBatch = 2, kHeads = 4, kLength = 128, kWidth = 64;
const std::vector<int64_t> kShape{kBatch, kHeads, kLength, kWidth};

/// The values of a forward and its backward.
struct Values {
  int32_t query, key, value, gradient, output, sums;
  std::array<int32_t, 3> gradients; ///< of query, key, value
};

Values addValues(SmallPlan &small, DType dtype, std::vector<int64_t> sums) {
  auto add = [&] { return small.add(dtype, kShape); };
  Values v{add(), add(), add(), add(), add(), 0, {}};
  v.sums = small.add(DType::f32, std::move(sums));
  for (int32_t &gradient : v.gradients)
    gradient = add();
  small.give(v.output);
  for (int32_t gradient : v.gradients)
    small.give(gradient);
  return v;
}

using P = SmallPlan;
using Build = Values (*)(SmallPlan &, bool isCausal);

Values efficient(SmallPlan &small, bool isCausal) {
  Values v = addValues(small, DType::f32, {kBatch, kHeads, kLength});
  // Their places are asked for in a capture alone.
  int32_t seed = small.add(DType::i64, {}), offset = small.add(DType::i64, {});
  int32_t none = small.addZeros(DType::i64, {});
  small.call("aten::_scaled_dot_product_efficient_attention", "",
             {v.output, v.sums, seed, offset}, P::tensor(v.query),
             P::tensor(v.key), P::tensor(v.value), P::none(), P::boolean(true),
             P::number(0), P::boolean(isCausal), P::none());
  small.call("aten::_scaled_dot_product_efficient_attention_backward", "",
             {v.gradients[0], v.gradients[1], v.gradients[2], -1},
             P::tensor(v.gradient), P::tensor(v.query), P::tensor(v.key),
             P::tensor(v.value), P::none(), P::tensor(v.output),
             P::tensor(v.sums), P::tensor(none), P::tensor(none), P::number(0),
             P::booleans({1, 1, 1, 0}), P::boolean(isCausal), P::none());
  return v;
}

Values flash(SmallPlan &small, bool isCausal) {
  Values v = addValues(small, DType::bf16, {kBatch, kHeads, kLength});
  int32_t state = small.addZeros(DType::u64, {2});
  int32_t unused = small.addZeros(DType::u64, {});
  small.call("aten::_scaled_dot_product_flash_attention", "",
             {v.output, v.sums, -1, -1, -1, -1, -1}, P::tensor(v.query),
             P::tensor(v.key), P::tensor(v.value), P::number(0),
             P::boolean(isCausal), P::boolean(false), P::none());
  small.call("aten::_scaled_dot_product_flash_attention_backward", "",
             {v.gradients[0], v.gradients[1], v.gradients[2]},
             P::tensor(v.gradient), P::tensor(v.query), P::tensor(v.key),
             P::tensor(v.value), P::tensor(v.output), P::tensor(v.sums),
             P::none(), P::none(), P::integer(kLength), P::integer(kLength),
             P::number(0), P::boolean(isCausal), P::tensor(state),
             P::tensor(unused), P::none());
  return v;
}

Values cudnn(SmallPlan &small, bool isCausal) {
  Values v = addValues(small, DType::bf16, {kBatch, kHeads, kLength, 1});
  int32_t state = small.addZeros(DType::i64, {});
  small.call("aten::_scaled_dot_product_cudnn_attention", "",
             {v.output, v.sums, -1, -1, -1, -1, -1}, P::tensor(v.query),
             P::tensor(v.key), P::tensor(v.value), P::none(), P::boolean(true),
             P::number(0), P::boolean(isCausal), P::boolean(false), P::none());
  small.call("aten::_scaled_dot_product_cudnn_attention_backward", "",
             {v.gradients[0], v.gradients[1], v.gradients[2]},
             P::tensor(v.gradient), P::tensor(v.query), P::tensor(v.key),
             P::tensor(v.value), P::tensor(v.output), P::tensor(v.sums),
             P::tensor(state), P::tensor(state), P::none(), P::none(),
             P::none(), P::integer(kLength), P::integer(kLength), P::number(0),
             P::boolean(isCausal), P::none());
  return v;
}

/// Output and gradients in float64.
std::array<at::Tensor, 4> expect(const at::Tensor &query, const at::Tensor &key,
                                 const at::Tensor &value,
                                 const at::Tensor &gradient, bool isCausal) {
  const double scale = 1 / std::sqrt(static_cast<double>(kWidth));
  at::Tensor scores = at::matmul(query, key.transpose(-1, -2)) * scale;
  if (isCausal)
    scores = scores.masked_fill(
        at::ones({kLength, kLength}, scores.options()).tril() == 0, -INFINITY);
  at::Tensor weights = at::softmax(scores, -1);
  at::Tensor ofWeights = at::matmul(gradient, value.transpose(-1, -2));
  at::Tensor ofScores =
      weights * (ofWeights - (ofWeights * weights).sum(-1, /*keepdim=*/true)) *
      scale;
  return {at::matmul(weights, value), at::matmul(ofScores, key),
          at::matmul(ofScores.transpose(-1, -2), query),
          at::matmul(weights.transpose(-1, -2), gradient)};
}

struct Case {
  const char *name;
  Build build;
  double tolerance; ///< of the greatest number
};

class GpuAttention : public testing::TestWithParam<Case> {
protected:
  void SetUp() override { FSDP_NEEDS_GPU(); }
};

TEST_P(GpuAttention, GivesWhatTheFormulaGives) {
  for (bool isCausal : {false, true}) {
    SmallPlan small;
    small.beginProgram("attention");
    Values v = GetParam().build(small, isCausal);
    GpuRank rank(small, CudaGraph::on);
    const auto &tensors = rank.executors[0]->tensors();
    auto at = [&](int32_t value) {
      return tensors[static_cast<size_t>(value)];
    };
    for (int32_t value : {v.query, v.key, v.value, v.gradient})
      at(value).copy_(at::randn(kShape, at(value).options().dtype(at::kFloat)));
    auto wide = [&](int32_t value) { return at(value).to(at::kDouble); };
    std::array<at::Tensor, 4> wanted = expect(
        wide(v.query), wide(v.key), wide(v.value), wide(v.gradient), isCausal);
    // Single launches, and from the fourth on a graph.
    for (int run = 0; run < 6; ++run) {
      for (int32_t each :
           {v.output, v.gradients[0], v.gradients[1], v.gradients[2]})
        at(each).fill_(NAN);
      rank.run(0);
      std::array<int32_t, 4> found{v.output, v.gradients[0], v.gradients[1],
                                   v.gradients[2]};
      for (size_t i = 0; i < 4; ++i) {
        double most = wanted[i].abs().max().item<double>();
        double off = (wide(found[i]) - wanted[i]).abs().max().item<double>();
        EXPECT_LT(off, GetParam().tolerance * most)
            << "run " << run << ", result " << i << ", causal " << isCausal;
      }
    }
    EXPECT_EQ(rank.memory.missedBytes(), 0u) << "causal " << isCausal;
  }
}

INSTANTIATE_TEST_SUITE_P(, GpuAttention,
                         testing::Values(Case{"flash", flash, 2e-2},
                                         Case{"efficient", efficient, 1e-4},
                                         Case{"cudnn", cudnn, 2e-2}),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
