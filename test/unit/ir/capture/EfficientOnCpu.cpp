//===- EfficientOnCpu.cpp - Memory-efficient attention, on CPUs -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch has the operator for GPUs alone. What is captured for these is
// replayed on CPUs: as kernel_forward.h and kernel_backward.h have it, in
// float32, with what they ask of a bias.
//
//===----------------------------------------------------------------------===//

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <limits>

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Queries by which sums are written.
constexpr int64_t kBlock = 32;

/// kernel_forward.h, check_supported, and what loads ask for.
void checkBias(const Tensor &bias, const Tensor &query, const Tensor &key) {
  TORCH_CHECK(bias.sizes() == at::IntArrayRef({query.size(0), query.size(1),
                                               query.size(2), key.size(2)}));
  TORCH_CHECK(bias.scalar_type() == query.scalar_type());
  TORCH_CHECK(bias.stride(3) == 1 || bias.size(3) == 1);
  int64_t alignment = 16 / int64_t(query.element_size());
  for (int64_t dim : {0, 1, 2})
    TORCH_CHECK(bias.size(dim) == 1 || bias.stride(dim) % alignment == 0,
                "strides ", bias.strides());
}

/// In float32, of the pairs that are not seen -inf.
Tensor score(const Tensor &query, const Tensor &key, const OptionalTensor &bias,
             bool isCausal, double scale) {
  TORCH_CHECK(query.size(1) == key.size(1) && query.size(3) == key.size(3));
  Tensor scores =
      at::matmul(query.to(at::kFloat), key.to(at::kFloat).transpose(2, 3)) *
      scale;
  if (bias && bias->defined()) {
    checkBias(*bias, query, key);
    scores = scores + bias->to(at::kFloat);
  }
  if (isCausal) {
    Tensor q = at::arange(query.size(2)).unsqueeze(1);
    scores = scores.masked_fill(at::arange(key.size(2)) > q, -kInfinity);
  }
  return scores;
}

double scaleOf(const Tensor &query, std::optional<double> scale) {
  return scale.value_or(1 / std::sqrt(double(query.size(3))));
}

/// The operator's tensors lie by position in front of heads.
Tensor byPosition(const Tensor &heads, const Tensor &like) {
  return heads.to(like.scalar_type())
      .transpose(1, 2)
      .contiguous()
      .transpose(1, 2);
}

std::tuple<Tensor, Tensor, Tensor, Tensor>
attendEfficiently(const Tensor &query, const Tensor &key, const Tensor &value,
                  const OptionalTensor &bias, bool needsSums, double dropout,
                  bool isCausal, std::optional<double> scale) {
  TORCH_CHECK(dropout == 0);
  Tensor scores = score(query, key, bias, isCausal, scaleOf(query, scale));
  // A row that sees nothing: its output is 0, and so is its sum's logarithm.
  Tensor sums = scores.logsumexp(-1);
  sums = at::where(sums == -kInfinity, at::zeros_like(sums), sums);
  Tensor weights = (scores - sums.unsqueeze(-1)).exp();
  int64_t length = query.size(2);
  int64_t rows = needsSums ? (length + kBlock - 1) / kBlock * kBlock : 0;
  Tensor kept =
      at::full({query.size(0), query.size(1), rows}, kInfinity, at::kFloat);
  if (needsSums)
    kept.slice(2, 0, length).copy_(sums);
  return {byPosition(at::matmul(weights, value.to(at::kFloat)), query), kept,
          at::zeros({}, at::kLong), at::zeros({}, at::kLong)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> differentiateEfficiently(
    const Tensor &gradient, const Tensor &query, const Tensor &key,
    const Tensor &value, const Tensor &bias, const Tensor &, const Tensor &sums,
    const Tensor &, const Tensor &, double, std::array<bool, 4> needed,
    bool isCausal, std::optional<double> scale) {
  TORCH_CHECK(!needed[3], "the bias has no gradient here");
  double by = scaleOf(query, scale);
  Tensor scores = score(query, key, bias, isCausal, by);
  Tensor weights =
      (scores - sums.slice(2, 0, query.size(2)).unsqueeze(-1)).exp();
  Tensor g = gradient.to(at::kFloat);
  Tensor ofWeights = at::matmul(g, value.to(at::kFloat).transpose(2, 3));
  Tensor ofScores =
      weights * (ofWeights - (ofWeights * weights).sum(-1, true)) * by;
  return {byPosition(at::matmul(ofScores, key.to(at::kFloat)), query),
          byPosition(at::matmul(ofScores.transpose(2, 3), query.to(at::kFloat)),
                     key),
          byPosition(at::matmul(weights.transpose(2, 3), g), value), Tensor()};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_scaled_dot_product_efficient_attention", attendEfficiently);
  m.impl("_scaled_dot_product_efficient_attention_backward",
         differentiateEfficiently);
}
