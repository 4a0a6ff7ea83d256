//===- BlockAttention.h - Attention of blocks of queries --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels know no windows, prefixes or chunks but multiply all queries with all
// keys. A block of queries next to each other sees few of the keys: the others
// are left out, and the mask that remains is that of a block.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_META_BLOCKATTENTION_H
#define FSDP_IR_CAPTURE_META_BLOCKATTENTION_H

#include "ir/capture/meta/AttentionReader.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace fsdp::meta {

/// Queries, and the keys that any of them sees, by number.
struct AttentionBlock {
  int64_t firstQuery, endQuery;
  int64_t firstKey, endKey;
  /// All, Causal, or Ranges: `begin` and `end` of each query, counted from
  /// `firstKey`.
  MaskForm form;
  Tensor begin, end;

  int64_t queries() const { return endQuery - firstQuery; }
  int64_t keys() const { return endKey - firstKey; }
};

/// Blocks that cover all queries and multiply as little as no more than
/// `kMostBlocks` of them can; none if that is hardly less than all.
std::vector<AttentionBlock> chooseBlocks(const MaskReading &mask, int64_t keys);

inline constexpr int64_t kMostBlocks = 16;

/// Attention of one block: [batch, heads, queries or keys, width].
using AttendBlock =
    std::function<Tensor(const AttentionBlock &block, const Tensor &query,
                         const Tensor &key, const Tensor &value)>;

/// The output of all queries, differentiable: gradients of keys that several
/// blocks see are summed over these alone.
Tensor attendBlocks(const std::vector<AttentionBlock> &blocks,
                    const Tensor &query, const Tensor &key, const Tensor &value,
                    const AttendBlock &attend);

/// Tensors [batch, heads, length, width] one behind the other, laid out as
/// fused kernels lay out what they return: by position in front of heads.
Tensor joinByPosition(std::vector<Tensor> parts);

/// The sum of tensors, one for each block, that each stand for its keys; in the
/// sizes of `like`, [batch, heads, keys, width].
Tensor addUp(const std::vector<AttentionBlock> &blocks,
             const std::vector<Tensor> &parts, const Tensor &like);

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_BLOCKATTENTION_H
