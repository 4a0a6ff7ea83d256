//===- FlashOnCpu.cpp - Told flash attention, on CPUs ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch has the operator for GPUs alone. What is captured for these is
// replayed on CPUs: as flash_api.cpp has it, sequence by sequence, in float32.
//
//===----------------------------------------------------------------------===//

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using OptionalSize = std::optional<int64_t>;

namespace {

struct Told {
  bool isCausal;
  double scale;
  OptionalSize left, right;
};

/// Of one sequence: [heads, length, width] in float32, and scores' logarithm
/// of sums.
struct Attended {
  Tensor weights, sums;
};

Attended weigh(const Tensor &query, const Tensor &key, const Told &told) {
  Tensor scores = at::matmul(query, key.transpose(1, 2)) * told.scale;
  // The last query and the last key are at one place (flash_api.cpp).
  int64_t shift = key.size(1) - query.size(1);
  Tensor q = at::arange(query.size(1)).unsqueeze(1) + shift;
  Tensor k = at::arange(key.size(1));
  Tensor isSeen = q.eq(q) & k.eq(k);
  // flash_api.cpp: a negative reach is none.
  if (told.isCausal || (told.right && *told.right >= 0))
    isSeen = isSeen & (k <= q + (told.isCausal ? 0 : *told.right));
  if (told.left && *told.left >= 0)
    isSeen = isSeen & (k >= q - *told.left);
  scores = at::where(isSeen, scores,
                     at::scalar_tensor(-std::numeric_limits<double>::infinity(),
                                       scores.options()));
  return {scores.softmax(-1), scores.logsumexp(-1)};
}

/// The parts of [positions, heads, width], or [batch, length, heads, width],
/// that are a sequence each.
std::vector<Tensor> partsOf(const Tensor &tensor,
                            const OptionalTensor &bounds) {
  std::vector<Tensor> parts;
  if (!bounds || !bounds->defined()) {
    for (int64_t i = 0; i < tensor.size(0); ++i)
      parts.push_back(tensor.select(0, i));
    return parts;
  }
  TORCH_CHECK(bounds->scalar_type() == at::kInt && bounds->is_contiguous());
  const int32_t *at = bounds->data_ptr<int32_t>();
  TORCH_CHECK(at[0] == 0 && at[bounds->numel() - 1] == tensor.size(0));
  for (int64_t i = 0; i + 1 < bounds->numel(); ++i)
    parts.push_back(tensor.slice(0, at[i], at[i + 1]));
  return parts;
}

/// [heads, length, width], each head as often as there are ones of queries.
Tensor byHead(const Tensor &part, int64_t heads) {
  Tensor laid = part.transpose(0, 1).to(at::kFloat);
  return laid.repeat_interleave(heads / laid.size(0), 0);
}

/// The other way round: sums over heads that are one.
void put(const Tensor &into, const Tensor &laid) {
  int64_t heads = into.size(1);
  Tensor sums =
      laid.view({heads, laid.size(0) / heads, laid.size(1), laid.size(2)})
          .sum(1);
  into.copy_(sums.transpose(0, 1));
}

void checkOperands(const Tensor &query, const Tensor &key,
                   const OptionalTensor &bounds) {
  bool isApart = bounds && bounds->defined();
  TORCH_CHECK(query.dim() == (isApart ? 3 : 4) && query.stride(-1) == 1 &&
              key.stride(-1) == 1 && query.size(-1) % 8 == 0 &&
              query.size(-2) % key.size(-2) == 0 &&
              (query.scalar_type() == at::kHalf ||
               query.scalar_type() == at::kBFloat16));
}

using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Five forward(const Tensor &query, const Tensor &key, const Tensor &value,
             const OptionalTensor &boundsOfQueries,
             const OptionalTensor &boundsOfKeys, int64_t, int64_t,
             double dropout, bool isCausal, bool, std::optional<double> scale,
             OptionalSize left, OptionalSize right, const OptionalTensor &,
             const OptionalTensor &) {
  checkOperands(query, key, boundsOfQueries);
  TORCH_CHECK(dropout == 0);
  Tensor output = at::empty_like(query);
  bool isApart = boundsOfQueries && boundsOfQueries->defined();
  at::TensorOptions number = query.options().dtype(at::kFloat);
  Tensor sums =
      isApart
          ? at::empty({query.size(1), query.size(0)}, number)
          : at::empty({query.size(0), query.size(2), query.size(1)}, number);
  std::vector<Tensor> queries = partsOf(query, boundsOfQueries),
                      keys = partsOf(key, boundsOfKeys),
                      values = partsOf(value, boundsOfKeys),
                      outputs = partsOf(output, boundsOfQueries),
                      ofSums = isApart ? partsOf(sums.transpose(0, 1),
                                                 boundsOfQueries)
                                       : partsOf(sums.transpose(1, 2), {});
  for (size_t i = 0; i < queries.size(); ++i) {
    if (queries[i].size(0) == 0)
      continue;
    int64_t heads = queries[i].size(1);
    Attended found = weigh(byHead(queries[i], heads), byHead(keys[i], heads),
                           {isCausal, *scale, left, right});
    put(outputs[i], at::matmul(found.weights, byHead(values[i], heads)));
    ofSums[i].copy_(found.sums.transpose(0, 1));
  }
  return {output, sums, at::zeros({2}, query.options().dtype(at::kUInt64)),
          at::zeros({}, query.options().dtype(at::kUInt64)),
          at::empty({0}, query.options())};
}

std::tuple<Tensor, Tensor, Tensor>
backward(const Tensor &gradient, const Tensor &query, const Tensor &key,
         const Tensor &value, const Tensor &, const Tensor &,
         const Tensor &boundsOfQueries, const Tensor &boundsOfKeys, int64_t,
         int64_t, double, bool isCausal, const Tensor &, const Tensor &,
         std::optional<double> scale, OptionalSize left, OptionalSize right) {
  checkOperands(query, key, boundsOfQueries);
  Tensor ofQuery = at::empty_like(query), ofKey = at::empty_like(key),
         ofValue = at::empty_like(value);
  std::vector<Tensor> gradients = partsOf(gradient, boundsOfQueries),
                      queries = partsOf(query, boundsOfQueries),
                      keys = partsOf(key, boundsOfKeys),
                      values = partsOf(value, boundsOfKeys),
                      toQueries = partsOf(ofQuery, boundsOfQueries),
                      toKeys = partsOf(ofKey, boundsOfKeys),
                      toValues = partsOf(ofValue, boundsOfKeys);
  for (size_t i = 0; i < queries.size(); ++i) {
    if (queries[i].size(0) == 0) {
      // flash_bwd_kernel.h, where there is no block of queries.
      toKeys[i].zero_();
      toValues[i].zero_();
      continue;
    }
    int64_t heads = queries[i].size(1);
    Tensor q = byHead(queries[i], heads), k = byHead(keys[i], heads),
           v = byHead(values[i], heads), g = byHead(gradients[i], heads);
    Tensor weights = weigh(q, k, {isCausal, *scale, left, right}).weights;
    Tensor ofWeights = at::matmul(g, v.transpose(1, 2));
    Tensor ofScores =
        weights * (ofWeights - (ofWeights * weights).sum(-1, true)) * *scale;
    put(toQueries[i], at::matmul(ofScores, k));
    put(toKeys[i], at::matmul(ofScores.transpose(1, 2), q));
    put(toValues[i], at::matmul(weights.transpose(1, 2), g));
  }
  return {ofQuery, ofKey, ofValue};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_flash_attention_forward", forward);
  m.impl("_flash_attention_backward", backward);
}
