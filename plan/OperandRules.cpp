//===- OperandRules.cpp - What kernels expect of their operands -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's kernels check what users may get wrong. Backward kernels are
// called by autograd alone and take shapes and indices for granted: with others
// they read and write outside of their operands. test/hostile/kernels.py tries
// every operator of AllowedOperators.inc with operands that do not fit and
// lists those that crash; each has a rule here.
//
//===----------------------------------------------------------------------===//

#include "plan/OperandCheck.h"

#include <optional>
#include <unordered_map>

using namespace fsdp;
using namespace fsdp::operands;

namespace {

void layerNormBackward(Check &c) {
  const Dims &input = c.shape(1), &inner = c.integers(2);
  c.same(0, 1);
  c.that(inner.size() <= input.size() && withLast(input, inner) == input,
         "the normalized shape at the end of the input's");
  if (!c.problem.empty())
    return;
  int64_t rows = product(input, 0, input.size() - inner.size());
  for (size_t moment : {3, 4}) {
    const Dims &shape = c.shape(moment);
    c.that(product(shape, 0, shape.size()) == rows, "one moment for each row");
    c.dense(moment);
  }
  for (size_t weight : {5, 6})
    c.expectIfThere(weight, inner);
}

/// Operands from `first` to `last` have one element for each channel.
template <size_t input, size_t first, size_t last>
void channels(Check &c) {
  const Dims &shape = c.shape(input);
  c.that(shape.size() >= 2 && shape[1] > 0, "an input with channels");
  for (size_t i = first; i <= last && c.problem.empty(); ++i)
    c.expectIfThere(i, {shape[1]});
}

/// In evaluation, the moments of a batch are there and empty.
void batchNormBackward(Check &c) {
  c.same(0, 1);
  channels<1, 2, 4>(c);
  bool isTraining = c.integer(7) != 0;
  for (size_t i : {5, 6})
    if (c.problem.empty() && c.has(i) && (isTraining || c.shape(i) != Dims{0}))
      c.expect(i, {c.shape(1)[1]});
  c.that(!isTraining || (c.has(5) && c.has(6)), "the batch's moments");
  c.that(isTraining || (c.has(3) && c.has(4)), "running moments");
  const Dims &shape = c.shape(1);
  c.that(product(shape, 0, shape.size()) > 0, "an input that is not empty");
}

template <bool isBackward>
void groupNorm(Check &c) {
  size_t n = isBackward ? 5 : 3, input = isBackward ? 1 : 0;
  int64_t rows = c.integer(n), count = c.integer(n + 1),
          area = c.integer(n + 2), groups = c.integer(n + 3);
  const Dims &shape = c.shape(input);
  c.that(shape.size() >= 2 && shape[0] == rows && shape[1] == count &&
             product(shape, 2, shape.size()) == area,
         "the input's own sizes");
  c.that(groups > 0 && count > 0 && rows > 0 && area > 0 && count % groups == 0,
         "groups of as many channels");
  if (!c.problem.empty())
    return;
  c.dense(input);
  if (isBackward) {
    c.same(0, 1);
    c.dense(0);
    for (size_t i : {2, 3, 4})
      c.contiguous(i);
    c.expect(2, {rows, groups});
    c.expect(3, {rows, groups});
    c.expectIfThere(4, {count});
  } else {
    c.expectIfThere(1, {count});
    c.expectIfThere(2, {count});
  }
}

/// (gradient, indices, offsets, offset2bag, bag_size, maximum_indices, rows, …)
/// with or without the offsets.
template <bool hasOffsets>
void embeddingBagBackward(Check &c) {
  constexpr size_t k = hasOffsets ? 1 : 0;
  const Dims &gradient = c.shape(0), &indices = c.shape(1);
  int64_t rows = c.integer(5 + k), mode = c.integer(7 + k);
  c.that(gradient.size() == 2 && indices.size() == 1 && rows > 0 && mode >= 0 &&
             mode <= 2,
         "a row of indices and a gradient for each bag");
  if (!c.problem.empty())
    return;
  for (size_t i = 1; i < 5 + k; ++i)
    c.contiguous(i);
  c.expect(3 + k, {gradient[0]});
  c.index(1, 0, rows - 1);
  if (mode == 2) {
    c.expect(4 + k, gradient);
    c.index(4 + k, 0, rows - 1, -1);
  } else if (const Dims &bags = c.shape(2 + k);
             bags != Dims{0} || !hasOffsets) {
    c.expect(2 + k, indices);
    c.index(2 + k, 0, gradient[0] - 1);
  }
  if (hasOffsets) {
    const Dims &offsets = c.shape(2);
    c.that(offsets.size() == 1 &&
               (offsets[0] == gradient[0] || offsets[0] == gradient[0] + 1),
           "an offset for each bag");
    c.index(2, 0, indices[0]);
  }
  size_t weights = 9 + k;
  c.expectIfThere(weights, indices);
}

/// (gradient, weight, indices, offsets, offset2bag, mode, padding_idx)
void sampleWeightsBackward(Check &c) {
  const Dims &gradient = c.shape(0), &weight = c.shape(1),
             &indices = c.shape(2);
  c.that(gradient.size() == 2 && weight.size() == 2 && indices.size() == 1 &&
             gradient[1] == weight[1] && weight[0] > 0 && gradient[0] > 0,
         "rows of weights and a gradient for each bag");
  if (!c.problem.empty())
    return;
  // Empty: the kernel finds the bags from the offsets.
  if (c.shape(4) != Dims{0})
    c.expect(4, indices);
  const Dims &offsets = c.shape(3);
  c.that(offsets.size() == 1 &&
             (offsets[0] == gradient[0] || offsets[0] == gradient[0] + 1),
         "an offset for each bag");
  for (size_t i : {2, 3, 4})
    c.contiguous(i);
  c.index(2, 0, weight[0] - 1);
  c.index(3, 0, indices[0]);
  c.index(4, 0, gradient[0] - 1);
}

void embeddingBag(Check &c) {
  for (size_t i : {1, 2})
    c.contiguous(i);
  const Dims &weight = c.shape(0), &indices = c.shape(1);
  const Dims &offsets = c.shape(2);
  c.that(weight.size() == 2 && weight[0] > 0 && indices.size() == 1 &&
             offsets.size() == 1 && offsets[0] > 0,
         "rows of weights, and bags of indices to them");
  c.that(c.integer(4) >= 0 && c.integer(4) <= 2, "a mode from 0 to 2");
  if (!c.problem.empty())
    return;
  c.index(1, 0, weight[0] - 1);
  c.index(2, 0, indices[0]);
}

void rowsOfSoftmax(Check &c) { c.same(1, 0); }

/// The kernel sorts a copy of each row, but copies of a repeated element are
/// one element, and what it reads behind that one is anything.
void median(Check &c) {
  c.that(c.strideOf(0, c.integer(1)) != 0,
         "a dim whose elements are not one that is repeated (expand), of which "
         "PyTorch computes a wrong median; clone it first");
}

void nllLossBackward(Check &c) {
  const Dims &self = c.shape(1), &target = c.shape(2);
  // One dim of classes, behind the rows; images have more dims behind it.
  size_t classes = self.size() == 1 ? 0 : 1;
  Dims wanted = self;
  if (!self.empty())
    wanted.erase(wanted.begin() + ptrdiff_t(classes));
  c.that(!self.empty() && self[classes] > 0, "classes");
  if (!c.problem.empty())
    return;
  if (!wanted.empty() || !(target == Dims{1}))
    c.expect(2, wanted);
  if (c.has(3))
    c.expect(3, {self[classes]});
  c.index(2, 0, self[classes] - 1, c.integer(5));
}

/// The kernel reads rows of the last dim.
void rowsAreDense(Check &c, size_t argument) {
  c.that(c.strideOf(argument, -1) == 1, "rows without gaps");
}

/// Heads of queries may share those of keys and values, in groups of as many.
void groupedHeads(Check &c, const Dims &query, const Dims &key) {
  c.that(query.size() == 4 && key.size() == 4 && query[0] == key[0] &&
             query[3] == key[3] && product(query, 0, 4) > 0 &&
             product(key, 0, 4) > 0 && query[1] % key[1] == 0,
         "batch and width alike for queries and keys, and as many heads of "
         "queries as of keys or a multiple");
}

void flashBackward(Check &c) {
  const Dims &query = c.shape(1), &key = c.shape(2);
  groupedHeads(c, query, key);
  if (!c.problem.empty())
    return;
  c.same(0, 1);
  c.same(4, 1);
  c.same(3, 2);
  c.expect(5, {query[0], query[1], query[2]});
  for (size_t i : {0, 1, 2, 3, 4})
    rowsAreDense(c, i);
}

/// The shape of the norms of the weights `v` over all but one of their dims;
/// absent, with a problem, if the kernel cannot take them.
std::optional<Dims> shapeOfNorms(Check &c, const Dims &v, int64_t dim) {
  c.that(!v.empty() && (dim == 0 || dim == int64_t(v.size()) - 1) &&
             product(v, 0, v.size()) > 0,
         "weights that are normalized over their first or last dim");
  if (!c.problem.empty())
    return std::nullopt;
  Dims norms(v.size(), 1);
  norms[static_cast<size_t>(dim)] = v[static_cast<size_t>(dim)];
  return norms;
}

void weightNormBackward(Check &c) {
  std::optional<Dims> norms = shapeOfNorms(c, c.shape(1), c.integer(4));
  if (!norms)
    return;
  c.same(0, 1);
  c.expect(2, *norms);
  c.expect(3, *norms);
  for (size_t i : {0, 1, 2, 3})
    c.contiguous(i);
}

void distancesBackward(Check &c) {
  const Dims &a = c.shape(1), &b = c.shape(2);
  c.that(a.size() >= 2 && b.size() == a.size() && a.back() == b.back() &&
             std::equal(a.begin(), a.end() - 2, b.begin()),
         "points of as many dims in as many batches");
  if (!c.problem.empty())
    return;
  c.expect(0, withLast(a, {a[a.size() - 2], b[b.size() - 2]}));
  c.same(4, 0);
}

void pairsBackward(Check &c) {
  const Dims &self = c.shape(1);
  c.that(self.size() == 2, "points");
  if (!c.problem.empty())
    return;
  int64_t pairs = product({self[0], self[0] - 1}, 0, 2) / 2;
  c.expect(0, {pairs});
  c.same(3, 0);
}

/// Rows that were exchanged, as LAPACK counts them.
void pivots(Check &c, const Dims &matrix) {
  c.that(matrix.size() >= 2, "matrices");
  if (!c.problem.empty())
    return;
  size_t rank = matrix.size();
  Dims wanted(matrix.begin(), matrix.end() - 2);
  wanted.push_back(std::min(matrix[rank - 2], matrix[rank - 1]));
  c.expect(1, wanted);
  c.index(1, 1, matrix[rank - 2]);
}

void factorized(Check &c) { pivots(c, Dims(c.shape(0))); }

/// Rows, labels and lengths of (log_probs, targets, input_lengths,
/// target_lengths, …) from argument `first` on, of one batch.
template <size_t first, bool areTensors>
void labelled(Check &c) {
  const Dims &rows = c.shape(first), &targets = c.shape(first + 1);
  c.that(rows.size() == 3 && targets.size() == 2 && rows[1] == targets[0] &&
             rows[1] > 0 && rows[2] > 0,
         "steps of a batch of classes, and targets with a row for each sample");
  if (!c.problem.empty())
    return;
  c.index(first + 1, 0, rows[2] - 1);
  for (size_t i : {size_t{0}, size_t{1}}) {
    int64_t most = i == 0 ? rows[0] : targets[1];
    if (areTensors) {
      c.expect(first + 2 + i, {rows[1]});
      c.index(first + 2 + i, 0, most);
    } else {
      const Dims &lengths = c.integers(first + 2 + i);
      c.that(int64_t(lengths.size()) == rows[1] &&
                 std::ranges::all_of(
                     lengths, [&](int64_t n) { return n >= 0 && n <= most; }),
             "lengths of each sample");
    }
  }
  int64_t blank = c.integer(first == 0 ? 4 : 7);
  c.that(blank >= 0 && blank < rows[2], "a blank among the classes");
}

template <bool areTensors>
void labelledBackward(Check &c) {
  labelled<1, areTensors>(c);
  if (!c.problem.empty())
    return;
  const Dims &rows = c.shape(1), &targets = c.shape(2), &alpha = c.shape(6);
  c.expect(0, {rows[1]});
  c.expect(5, {rows[1]});
  c.that(alpha.size() == 3 && alpha[0] == rows[1] && alpha[1] >= rows[0] &&
             alpha[2] / 2 >= targets[1] && alpha[2] % 2 == 1,
         "what the forward pass left");
  for (size_t i : {0, 5, 6})
    c.dense(i);
}

void flashForward(Check &c) {
  const Dims &query = c.shape(0), &key = c.shape(1);
  groupedHeads(c, query, key);
  if (!c.problem.empty())
    return;
  c.same(2, 1);
  for (size_t i : {0, 1, 2})
    rowsAreDense(c, i);
}

void weightNorm(Check &c) {
  std::optional<Dims> norms = shapeOfNorms(c, c.shape(0), c.integer(2));
  if (!norms)
    return;
  c.expect(1, *norms);
  c.contiguous(0);
  c.contiguous(1);
}

/// The mask has the last two dims, the first and the last one, or all.
void maskedSoftmax(Check &c) {
  Dims self = c.shape(0), wanted = self;
  int64_t kind = c.integer(3);
  if (kind == 0 || kind == 1) {
    c.that(self.size() == 4, "four dims");
    if (!c.problem.empty())
      return;
    wanted = {kind == 0 ? self[2] : self[0], self[3]};
  }
  c.expect(1, wanted);
}

void maskedSoftmaxBackward(Check &c) {
  c.same(1, 0);
  c.same(2, 0);
}

void linearCombination(Check &c) {
  const Dims &input = c.shape(0), &factors = c.shape(1);
  const plan::ValueT *a = c.value(0), *b = c.value(1);
  c.that(factors.size() == 2 && !input.empty() && input[0] == factors[1] && a &&
             b && a->dtype == b->dtype,
         "a factor of its type for each summand");
}

/// (self, …, running_min, running_max, scale, zero_point, …, axis, per_row)
void observed(Check &c) {
  Dims wanted{1};
  if (c.integer(11) != 0) {
    const Dims &self = c.shape(0);
    int64_t axis = c.integer(10);
    c.that(axis >= 0 && axis < int64_t(self.size()), "an axis of the input");
    if (!c.problem.empty())
      return;
    wanted = {self[static_cast<size_t>(axis)]};
  }
  for (size_t i : {3, 4, 5, 6})
    if (!(wanted == Dims{1} && c.shape(i).empty()))
      c.expect(i, wanted);
}

/// (self, dims, …)
void transformed(Check &c) {
  const Dims &self = c.shape(0);
  Dims dims = c.integers(1);
  std::ranges::sort(dims);
  c.that(!dims.empty() && dims.front() >= 0 &&
             dims.back() < int64_t(self.size()) &&
             std::ranges::adjacent_find(dims) == dims.end(),
         "dims of the input");
}

void transformedToReal(Check &c) {
  transformed(c);
  if (!c.problem.empty())
    return;
  auto last = static_cast<size_t>(c.integers(1).back());
  c.that(c.integer(3) > 0 && c.shape(0)[last] >= c.integer(3) / 2 + 1,
         "half of the output's elements and one");
}

/// (self, factor, upper)
void solvedByFactor(Check &c) {
  const Dims &self = c.shape(0), &factor = c.shape(1);
  c.that(self.size() >= 2 && factor.size() == self.size() &&
             std::equal(factor.begin(), factor.end() - 1, self.begin()) &&
             factor.back() == factor[factor.size() - 2],
         "a square factor of as many rows in as many batches");
}

void notKnown(Check &c) {
  c.fail("relies on contents of its operands that are not checked");
}

const std::unordered_map<std::string_view, Rule> kRules = {
    {"aten::native_layer_norm_backward", layerNormBackward},
    {"aten::native_batch_norm_backward", batchNormBackward},
    {"aten::batch_norm_backward", batchNormBackward},
    {"aten::native_batch_norm", channels<0, 1, 4>},
    {"aten::_native_batch_norm_legit.no_stats", channels<0, 1, 2>},
    {"aten::_native_batch_norm_legit_functional", channels<0, 1, 4>},
    {"aten::_native_batch_norm_legit_no_training", channels<0, 1, 4>},
    {"aten::_batch_norm_no_update", channels<0, 1, 4>},
    {"aten::_batch_norm_with_update_functional", channels<0, 1, 4>},
    {"aten::batch_norm_update_stats", channels<0, 1, 2>},
    {"aten::native_group_norm", groupNorm<false>},
    {"aten::native_group_norm_backward", groupNorm<true>},
    {"aten::_softmax_backward_data", rowsOfSoftmax},
    {"aten::_log_softmax_backward_data", rowsOfSoftmax},
    {"aten::_embedding_bag", embeddingBag},
    {"aten::_embedding_bag_forward_only", embeddingBag},
    {"aten::_embedding_bag_backward", embeddingBagBackward<true>},
    {"aten::_embedding_bag_dense_backward", embeddingBagBackward<false>},
    {"aten::_embedding_bag_per_sample_weights_backward", sampleWeightsBackward},
    {"aten::nll_loss_backward", nllLossBackward},
    {"aten::nll_loss2d_backward", nllLossBackward},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     flashBackward},
    {"aten::_weight_norm_interface_backward", weightNormBackward},
    {"aten::_cdist_backward", distancesBackward},
    {"aten::_pdist_backward", pairsBackward},
    {"aten::_cholesky_solve_helper", solvedByFactor},
    {"aten::lu_unpack", factorized},
    {"aten::median.dim", median},
    {"aten::nanmedian.dim", median},
    {"aten::linalg_lu_solve", factorized},
    {"aten::_ctc_loss", labelled<0, false>},
    {"aten::_ctc_loss.Tensor", labelled<0, true>},
    {"aten::_ctc_loss_backward", labelledBackward<false>},
    {"aten::_ctc_loss_backward.Tensor", labelledBackward<true>},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", flashForward},
    {"aten::_weight_norm_interface", weightNorm},
    {"aten::_masked_softmax", maskedSoftmax},
    {"aten::_masked_softmax_backward", maskedSoftmaxBackward},
    {"aten::_compute_linear_combination", linearCombination},
    {"aten::_fused_moving_avg_obs_fq_helper_functional", observed},
    {"aten::_fft_r2c", transformed},
    {"aten::_fft_c2c", transformed},
    {"aten::_fft_c2r", transformedToReal},
    {"aten::_native_multi_head_attention", notKnown},
    {"aten::_transformer_encoder_layer_fwd", notKnown},
    // LAPACK's kernel crashes where a matrix holds a NaN.
    {"aten::_linalg_eigvals", notKnown},
    {"aten::linalg_ldl_solve", notKnown},
    {"aten::segment_reduce", notKnown},
    {"aten::_segment_reduce_backward", notKnown},
};

Check check(const std::string &op, const CallOperands &operands) {
  Check result(operands);
  if (Rule spatial = findSpatialRule(op))
    spatial(result);
  else if (auto rule = kRules.find(op); rule != kRules.end())
    rule->second(result);
  return result;
}

} // namespace

std::string fsdp::describeOperandProblem(const std::string &op,
                                         const CallOperands &operands) {
  return check(op, operands).problem;
}

std::vector<IndexOperand> fsdp::indexOperands(const std::string &op,
                                              const CallOperands &operands) {
  Check result = check(op, operands);
  return result.problem.empty() ? std::move(result.indices)
                                : std::vector<IndexOperand>();
}
