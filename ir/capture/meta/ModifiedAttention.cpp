//===- ModifiedAttention.cpp - Attention whose scores change --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/ModifiedAttention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

using namespace fsdp;
using namespace fsdp::meta;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Fewer queries than these are one block.
static constexpr int64_t kLeastQueries = 128;

PairPositions meta::makePositions(const Tensor &like,
                                  const AttentionBlock &block,
                                  bool isTransposed) {
  auto range = [&](int64_t first, int64_t end, int64_t dim) {
    std::vector<int64_t> sizes = {1, 1, 1, 1};
    sizes[size_t(dim)] = end - first;
    return at::arange(first, end, like.options().dtype(at::kLong)).view(sizes);
  };
  return {range(0, like.size(0), 0), range(0, like.size(1), 1),
          range(block.firstQuery, block.endQuery, isTransposed ? 3 : 2),
          range(block.firstKey, block.endKey, isTransposed ? 2 : 3)};
}

std::vector<AttentionBlock> meta::chooseModifiedBlocks(const MaskReading &mask,
                                                       int64_t queries,
                                                       int64_t keys) {
  std::vector<AttentionBlock> blocks;
  if (mask.form != MaskForm::Unknown && mask.form != MaskForm::All)
    blocks = chooseBlocks(mask, keys);
  if (!blocks.empty())
    return blocks;
  int64_t rows =
      std::max(kLeastQueries, (queries + kMostBlocks - 1) / kMostBlocks);
  for (int64_t first = 0; first < queries; first += rows)
    blocks.push_back({first,
                      std::min(first + rows, queries),
                      0,
                      keys,
                      MaskForm::All,
                      {},
                      {}});
  return blocks;
}

Tensor meta::repeatHeadsTo(const Tensor &tensor, int64_t heads) {
  int64_t own = tensor.size(1);
  if (own == heads)
    return tensor;
  return tensor.unsqueeze(2)
      .expand({-1, -1, heads / own, -1, -1})
      .reshape({tensor.size(0), heads, tensor.size(2), tensor.size(3)});
}

/// Positions of queries that come of the call's own operands: what is computed
/// of them alone is not the same as in other layers, for which it would be
/// kept.
static PairPositions makeOwnPositions(const Tensor &like,
                                      const AttentionBlock &block,
                                      bool isTransposed = false) {
  PairPositions positions = makePositions(like, block, isTransposed);
  positions.query =
      positions.query + like.new_zeros({1}, like.options().dtype(at::kLong));
  return positions;
}

namespace {

/// What forward computes, and backward again.
struct Call {
  double scale;
  std::vector<AttentionBlock> blocks;
  ChangeScores change;
};

at::ScalarType workingDtype(const Tensor &query) {
  return query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor queriesOf(const Tensor &tensor, const AttentionBlock &block) {
  return tensor.slice(2, block.firstQuery, block.endQuery);
}

Tensor keysOf(const Tensor &tensor, const AttentionBlock &block) {
  return tensor.slice(2, block.firstKey, block.endKey);
}

/// [..., a, b] of [..., a, width] and [..., b, width].
Tensor multiplyPairs(const Tensor &a, const Tensor &b) {
  return at::matmul(a, b.transpose(-2, -1));
}

/// What is taken off scores in front of exp: 0 of rows that see no key.
Tensor shiftOf(const Tensor &logsumexp) {
  return logsumexp.masked_fill(
      logsumexp == -std::numeric_limits<double>::infinity(), 0);
}

struct Kept : torch::CustomClassHolder {
  Call call;
  Tensor query, key, value, output, logsumexp;
  std::vector<Tensor> buffers;
};

constexpr const char *kKept = "kept";

/// Gradients of what a block was computed from; undefined where none is wanted.
struct BlockGradients {
  Tensor query, key, value;
  std::vector<Tensor> buffers;
};

struct Modified : torch::autograd::Function<Modified> {
  static variable_list forward(AutogradContext *context, const Tensor &query,
                               const Tensor &key, const Tensor &value,
                               at::TensorList buffers, const Call *call) {
    at::ScalarType dtype = workingDtype(query);
    auto kept = c10::make_intrusive<Kept>();
    kept->call = *call;
    kept->query = query;
    kept->key = key;
    kept->value = value;
    kept->buffers = buffers.vec();
    std::vector<Tensor> outputs, sums;
    for (const AttentionBlock &block : call->blocks) {
      Tensor scores = multiplyPairs(queriesOf(query, block).to(dtype),
                                    keysOf(key, block).to(dtype)) *
                      call->scale;
      scores =
          call->change(scores, makeOwnPositions(query, block), kept->buffers)
              .to(dtype);
      sums.push_back(at::logsumexp(scores, {-1}));
      Tensor weights = (scores - shiftOf(sums.back()).unsqueeze(-1)).exp();
      outputs.push_back(
          at::matmul(weights.to(query.scalar_type()),
                     keysOf(value, block).to(query.scalar_type())));
    }
    Tensor output = joinByPosition(std::move(outputs));
    Tensor sum = sums.size() == 1 ? sums.front() : at::cat(sums, 2);
    kept->output = output.detach();
    kept->logsumexp = sum.detach();
    context->saved_data[kKept] = c10::IValue::make_capsule(kept);
    return {output, sum};
  }

  static variable_list backward(AutogradContext *context,
                                variable_list gradients) {
    auto kept = c10::static_intrusive_pointer_cast<Kept>(
        context->saved_data[kKept].toCapsule());
    Tensor output =
        gradients[0].defined() ? gradients[0] : at::zeros_like(kept->output);
    at::ScalarType dtype = workingDtype(kept->query);
    // How much of a score's gradient is the same for all keys of a query.
    Tensor common = (kept->output.to(dtype) * output.to(dtype)).sum(-1);
    if (gradients[1].defined())
      common = common - gradients[1];
    std::vector<Tensor> queries, keys, values;
    std::vector<Tensor> buffers(kept->buffers.size());
    for (const AttentionBlock &block : kept->call.blocks) {
      BlockGradients found = differentiate(*kept, block, output, common);
      queries.push_back(found.query);
      keys.push_back(found.key);
      values.push_back(found.value);
      for (size_t i = 0; i < buffers.size(); ++i)
        if (Tensor each = found.buffers[i]; each.defined())
          buffers[i] = buffers[i].defined() ? buffers[i] + each : each;
    }
    variable_list result = {
        queries[0].defined() ? joinByPosition(queries) : Tensor(),
        keys[0].defined() ? addUp(kept->call.blocks, keys, kept->key)
                          : Tensor(),
        values[0].defined() ? addUp(kept->call.blocks, values, kept->value)
                            : Tensor()};
    result.insert(result.end(), buffers.begin(), buffers.end());
    result.emplace_back(); // of the call
    return result;
  }

private:
  /// Scores lie the other way round than in forward: computed alike, they would
  /// be those of forward, kept.
  static BlockGradients differentiate(const Kept &kept,
                                      const AttentionBlock &block,
                                      const Tensor &output,
                                      const Tensor &common) {
    at::ScalarType dtype = workingDtype(kept.query);
    Tensor query = queriesOf(kept.query, block);
    Tensor key = keysOf(kept.key, block), value = keysOf(kept.value, block);
    Tensor given = queriesOf(output, block);
    Tensor scores =
        (multiplyPairs(key.to(dtype), query.to(dtype)) * kept.call.scale)
            .detach();
    variable_list buffers;
    Tensor changed;
    {
      at::AutoGradMode differentiate(true);
      scores.requires_grad_(true);
      for (const Tensor &buffer : kept.buffers)
        buffers.push_back(
            buffer.detach().requires_grad_(buffer.requires_grad()));
      changed = kept.call
                    .change(scores, makeOwnPositions(kept.query, block, true),
                            buffers)
                    .to(dtype);
    }
    Tensor weights = (changed.detach() -
                      shiftOf(queriesOf(kept.logsumexp, block)).unsqueeze(-2))
                         .exp();
    BlockGradients result;
    result.buffers.resize(buffers.size());
    if (kept.value.requires_grad())
      result.value = at::matmul(weights.to(given.scalar_type()), given)
                         .to(kept.value.scalar_type());
    variable_list wanted = {scores};
    std::vector<size_t> places;
    for (size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].requires_grad()) {
        wanted.push_back(buffers[i]);
        places.push_back(i);
      }
    bool needsQuery = kept.query.requires_grad();
    bool needsKey = kept.key.requires_grad();
    variable_list found(wanted.size());
    if (changed.requires_grad() &&
        (needsQuery || needsKey || !places.empty())) {
      Tensor gradient =
          weights * (multiplyPairs(value.to(dtype), given.to(dtype)) -
                     queriesOf(common, block).unsqueeze(-2));
      found = torch::autograd::grad({changed}, wanted, {gradient}, std::nullopt,
                                    false, /*allow_unused=*/true);
    }
    for (size_t i = 0; i < places.size(); ++i)
      result.buffers[places[i]] = found[i + 1];
    Tensor own = found[0].defined() ? found[0] : at::zeros_like(weights);
    own = (own * kept.call.scale).to(query.scalar_type());
    if (needsKey)
      result.key = at::matmul(own, query).to(kept.key.scalar_type());
    if (needsQuery)
      result.query =
          at::matmul(own.transpose(-2, -1), key.to(query.scalar_type()));
    return result;
  }
};

} // namespace

ModifiedAttention meta::attendModified(
    const Tensor &query, const Tensor &key, const Tensor &value, double scale,
    const std::vector<Tensor> &buffers,
    const std::vector<AttentionBlock> &blocks, const ChangeScores &change) {
  Call call = {scale, blocks, change};
  variable_list results = Modified::apply(
      query, repeatHeadsTo(key, query.size(1)),
      repeatHeadsTo(value, query.size(1)), at::TensorList(buffers), &call);
  return {results[0], results[1]};
}
