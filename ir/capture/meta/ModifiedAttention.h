//===- ModifiedAttention.h - Attention whose scores change ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What no kernel computes: softmax of scores that a function changes, as
// flex_attention has it. Blocks of queries are computed one after another, and
// backward computes a block's scores again, so that no tensor of all queries by
// all keys is kept.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_META_MODIFIEDATTENTION_H
#define FSDP_IR_CAPTURE_META_MODIFIEDATTENTION_H

#include "ir/capture/meta/BlockAttention.h"

namespace fsdp::meta {

/// Numbers of rows of a batch, of heads, queries and keys: i64, in shapes that
/// broadcast to scores [batch, heads, queries, keys], or to ones that lie the
/// other way round, [batch, heads, keys, queries].
struct PairPositions {
  Tensor batch, head, query, key;
};

/// A block's positions, of `like`, queries [batch, heads, queries, width].
PairPositions makePositions(const Tensor &like, const AttentionBlock &block,
                            bool isTransposed = false);

/// Scores as they go into softmax, -inf where a key is not seen, out of those
/// that queries and keys make. Differentiable by scores and buffers.
using ChangeScores =
    std::function<Tensor(const Tensor &scores, const PairPositions &positions,
                         const std::vector<Tensor> &buffers)>;

struct ModifiedAttention {
  Tensor output;    ///< [batch, heads, queries, width of values]
  Tensor logsumexp; ///< [batch, heads, queries], in float32, of all scores
};

/// `query`, `key` and `value` are [batch, heads, length, width] with equal
/// batches; heads of queries are a multiple of those of keys. Scores and
/// softmax are computed in float32, or float64 if that is the query's dtype.
/// Queries that see no key get zeros, and -inf as logsumexp.
ModifiedAttention attendModified(const Tensor &query, const Tensor &key,
                                 const Tensor &value, double scale,
                                 const std::vector<Tensor> &buffers,
                                 const std::vector<AttentionBlock> &blocks,
                                 const ChangeScores &change);

/// Blocks for scores of any kind: those that a mask of this reading lets be
/// left out, if it says any, and else ones of equal length that see all keys.
std::vector<AttentionBlock> chooseModifiedBlocks(const MaskReading &mask,
                                                 int64_t queries, int64_t keys);

/// Each head as often as it takes for `heads` of them, one behind the other.
Tensor repeatHeadsTo(const Tensor &tensor, int64_t heads);

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_MODIFIEDATTENTION_H
