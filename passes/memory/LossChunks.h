//===- LossChunks.h - A loss in chunks of its rows --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_MEMORY_LOSSCHUNKS_H
#define FSDP_PASSES_MEMORY_LOSSCHUNKS_H

#include "passes/analysis/States.h"
#include "passes/memory/LossRegion.h"

namespace fsdp {

/// Replaces the region by `chunks` copies of it, each for some of the rows,
/// where the layer stands. A chunk's forward is followed by its backward; the
/// numbers that are sums of all rows come behind the last one. `chunks` is at
/// least 2; there are no more chunks than rows.
void chunkLoss(mlir::func::FuncOp func, const LossRegion &region,
               int64_t chunks, const StateTable &states);

} // namespace fsdp

#endif // FSDP_PASSES_MEMORY_LOSSCHUNKS_H
