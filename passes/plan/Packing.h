//===- Packing.h - Addresses for buffers with lifetimes ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dynamic storage allocation: buffers that are alive at the same time must not
// overlap in memory; the region that holds them should be small. Knows neither
// MLIR nor tensors.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PLAN_PACKING_H
#define FSDP_PASSES_PLAN_PACKING_H

#include "passes/analysis/Alignment.h"

#include <cstdint>
#include <span>
#include <vector>

namespace fsdp {

/// A buffer of `bytes` bytes, in use at the times first to last, both included.
struct Interval {
  int64_t bytes;
  int64_t first, last;
};

struct Packing {
  std::vector<int64_t> offsets; ///< one for each interval, aligned
  int64_t bytes = 0;            ///< end of the highest buffer
};

/// Walks through time like an allocator that takes the smallest gap that fits.
/// O(n log n).
Packing packByTime(std::span<const Interval> intervals);

/// Places the largest buffers first, each in the smallest gap that fits among
/// those alive at its times (Pisarchyk and Lee, arXiv:2001.03288). O(n^2).
Packing packBySize(std::span<const Interval> intervals);

/// The same, those first that fill most of the plane of bytes and time.
Packing packByArea(std::span<const Interval> intervals);

/// How much `pack` may do. In numbers of the problem, not in seconds, so that
/// results are the same on all machines.
struct PackingLimits {
  /// Up to how many buffers the O(n^2) packers are tried.
  size_t greedyBuffers = 50000;
  /// Steps of the search, some 1.5 ns each; 0: no search. `kHardWork` times as
  /// many as long as the packing is more than bytes / kHard above the bound.
  int64_t searchWork = 60000000;
  /// So many bytes are few enough; without it `pack` gets no higher.
  int64_t enough = 0;
};

/// A packing within bytes / kEnough of the lower bound ends the efforts.
inline constexpr int64_t kEnough = 1000;
inline constexpr int64_t kHard = 80, kHardWork = 8;

/// The best of all packers, then of a search for less (PackingSearch.h).
Packing pack(std::span<const Interval> intervals,
             const PackingLimits &limits = {});

/// The highest sum of (aligned) bytes alive at one time: no packing is smaller.
int64_t lowerBound(std::span<const Interval> intervals);

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_PACKING_H
