//===- Blocks.h - A tensor's elements in blocks -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_OPTIMIZE_BLOCKS_H
#define FSDP_RUNTIME_OPTIMIZE_BLOCKS_H

#include "runtime/optimize/ElementRuns.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// Neighbouring elements that a rank holds of one block.
struct BlockPiece {
  int64_t local; ///< the first one's number
  int64_t count; ///< at most kBlockElements
  int64_t block; ///< its number among the scales
};

/// Of a tensor whose blocks the rank has whole, or that has none: each
/// kBlockElements elements of what it holds.
std::vector<BlockPiece> cutEvenly(int64_t elements);

/// Of one whose blocks are the model's tensor's, of which others have parts.
std::vector<BlockPiece> cutByWhole(const std::vector<ElementRun> &runs);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPTIMIZE_BLOCKS_H
