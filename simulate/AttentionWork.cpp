//===- AttentionWork.cpp - What calls of attention multiply ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/AttentionWork.h"

#include "plan/DType.h"

#include <algorithm>

using namespace fsdp;
using plan::ArgKind;

namespace {

/// Of queries and keys in all heads that are multiplied: how many there are,
/// and how many numbers a query and an item have together.
struct Pairs {
  double count, width;
};

double sizeOf(const plan::ValueT &value, size_t dim) {
  return double(value.shape[dim]);
}

/// Operands are [batch, heads, length, width].
Pairs countScaled(const plan::ValueT &query, const plan::ValueT &key,
                  const plan::ValueT &item, const plan::CallT &call,
                  std::string_view name, bool isBackward) {
  // Of the flags of these operators, is_causal is the last but for
  // return_debug_mask.
  bool hasLogSum = !isBackward && (name.find("efficient") != name.npos ||
                                   name.find("cudnn") != name.npos);
  size_t number = 0;
  bool isCausal = false;
  for (const auto &arg : call.args)
    if (arg->kind == ArgKind::boolean && number++ == (hasLogSum ? 1u : 0u))
      isCausal = arg->ints[0] != 0;
  double pairs =
      sizeOf(query, 0) * sizeOf(query, 1) * sizeOf(query, 2) * sizeOf(key, 2);
  return {isCausal ? pairs / 2 : pairs, sizeOf(query, 3) + sizeOf(item, 3)};
}

/// What is added to scores; null if nothing is, or on hosts.
const plan::ValueT *findMask(const plan::ProgramT &program,
                             const plan::CallT &call, std::string_view name,
                             bool isBackward) {
  // (query, key, value, attn_bias, …), backward (grad_out, query, key, value,
  // attn_bias, …) and cuDNN's (grad_out, …, out, logsumexp, two of a
  // generator's state, attn_bias, …).
  size_t at = 3;
  if (name.find("cudnn") != name.npos)
    at = isBackward ? 8 : 3;
  else if (name.find("efficient") != name.npos)
    at = isBackward ? 4 : 3;
  else
    return nullptr;
  if (at >= call.args.size() || call.args[at]->kind != ArgKind::tensor ||
      call.args[at]->values.empty() || call.args[at]->values[0] == -1)
    return nullptr;
  const plan::ValueT &mask = *program.values[size_t(call.args[at]->values[0])];
  return mask.shape.size() < 2 ? nullptr : &mask;
}

/// Blocks of queries and keys load their tile of the mask, once for each head
/// and row of the batch, forward and backward (kernel_forward.h and
/// kernel_backward.h, BiasLoader); cuDNN's are taken for alike. One row for all
/// queries stays in caches.
double countMaskReads(const plan::ValueT &mask, const Pairs &pairs) {
  size_t rank = mask.shape.size();
  auto isSame = [&](size_t dim) {
    return mask.shape[dim] == 1 ||
           (!mask.strides.empty() && mask.strides[dim] == 0);
  };
  if (isSame(rank - 2))
    return 0;
  double own = 1;
  for (size_t dim = 0; dim < rank; ++dim)
    own *= isSame(dim) ? 1 : sizeOf(mask, dim);
  return std::max(pairs.count - own, 0.0) * double(dtypeBytes(mask.dtype));
}

/// Pairs of `length` positions of which each sees so many to the left and to
/// the right; nothing: all.
double countWindow(double length, std::optional<double> left,
                   std::optional<double> right) {
  auto beside = [&](std::optional<double> reach) {
    double seen = std::clamp(reach.value_or(length - 1), 0.0, length - 1);
    return seen * length - seen * (seen + 1) / 2;
  };
  return length + beside(left) + beside(right);
}

/// Operands are [batch, length, heads, width], or [positions, heads, width]
/// and documents one behind the other.
std::optional<Pairs> countTold(const plan::ProgramT &program,
                               const plan::CallT &call,
                               const plan::ValueT &query,
                               const plan::ValueT &key,
                               const plan::ValueT &item, bool isBackward) {
  // (query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
  // is_causal, return_debug_mask, scale, left, right, …), backward
  // (grad_out, …, out, logsumexp, cum_seq_q, …, is_causal, rng_state, unused,
  // scale, left, right).
  size_t bounds = isBackward ? 6 : 3, causal = isBackward ? 11 : 8;
  size_t left = isBackward ? 15 : 11;
  if (call.args.size() <= left + 1)
    return std::nullopt;
  auto reach = [&](size_t at) -> std::optional<double> {
    const plan::ArgT &arg = *call.args[at];
    return arg.kind == ArgKind::integer ? std::optional(double(arg.ints[0]))
                                        : std::nullopt;
  };
  bool isCausal = call.args[causal]->kind == ArgKind::boolean &&
                  call.args[causal]->ints[0] != 0;
  bool isApart = query.shape.size() == 3;
  double heads = sizeOf(query, isApart ? 1 : 2),
         width = sizeOf(query, isApart ? 2 : 3);
  double rows = isApart ? 1 : sizeOf(query, 0);
  double length = sizeOf(query, isApart ? 0 : 1), share = 1;
  const plan::ArgT &begins = *call.args[bounds];
  if (isApart && begins.kind == ArgKind::tensor && begins.values[0] != -1) {
    double room = sizeOf(*program.values[size_t(begins.values[0])], 0) - 1;
    rows = std::max(room / 2, 1.0);
    // Of keys; a rank may have parts of the queries.
    share = length / sizeOf(key, 0);
    length = std::max(sizeOf(key, 0) / rows, 1.0);
  }
  double seen = isCausal ? length * length / 2
                         : countWindow(length, reach(left), reach(left + 1));
  return Pairs{rows * heads * seen * share, width + double(item.shape.back())};
}

} // namespace

std::optional<AttentionWork>
fsdp::estimateAttention(const plan::ProgramT &program, const plan::CallT &call,
                        const std::vector<const plan::ValueT *> &operands,
                        std::string_view name, bool isBackward) {
  size_t first = isBackward ? 1 : 0;
  if (operands.size() < first + 3)
    return std::nullopt;
  const plan::ValueT &query = *operands[first], &key = *operands[first + 1],
                     &item = *operands[first + 2];
  std::optional<Pairs> pairs;
  if (name.starts_with("_flash_attention_")) {
    if (query.shape.size() >= 3)
      pairs = countTold(program, call, query, key, item, isBackward);
  } else if (query.shape.size() == 4 && key.shape.size() == 4) {
    pairs = countScaled(query, key, item, call, name, isBackward);
  }
  if (!pairs)
    return std::nullopt;
  AttentionWork work{query.dtype,
                     (isBackward ? 2.5 : 1) * 2 * pairs->count * pairs->width};
  if (const plan::ValueT *mask = findMask(program, call, name, isBackward))
    work.bytes = countMaskReads(*mask, *pairs);
  // FlashAttention-2's paper (4.1) puts the kernel at half the speed.
  if (name.find("efficient") != name.npos && dtypeBytes(query.dtype) == 2)
    work.share = 0.5;
  return work;
}
