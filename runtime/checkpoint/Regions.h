//===- Regions.h - Which elements of a state a rank holds -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CHECKPOINT_REGIONS_H
#define FSDP_RUNTIME_CHECKPOINT_REGIONS_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

/// A rectangle of a tensor: for each dim its first index and its length. A
/// tensor without dims has one.
struct Region {
  std::vector<int64_t> offset, size;

  uint64_t elements() const;
  bool operator==(const Region &) const = default;
};

/// What both have; no elements if they are apart.
Region intersect(const Region &a, const Region &b);

/// Strides in elements of a contiguous tensor of that shape.
std::vector<int64_t> contiguousStrides(std::span<const int64_t> shape);

/// Elements [first, first + count) of a tensor, in row-major order, as
/// rectangles that follow one another: at most two for each dim.
std::vector<Region> toRegions(std::span<const int64_t> shape, uint64_t first,
                              uint64_t count);

/// A rectangle of a state that lies in a rank's arena. Its element of index i
/// lies `first + sum((i - region.offset) * strides)` elements behind the begin
/// of `home`.
struct Part {
  Region region;
  const plan::StateT *home; ///< the state itself, or the flat one it lies in
  uint64_t first = 0;
  std::vector<int64_t> strides;
};

/// Where `rank` keeps its elements of a state that is not flat itself, without
/// padding; empty if it has none.
std::vector<Part> ownParts(const plan::PlanT &plan, const plan::StateT &state,
                           int rank);

/// Calls `run(a, b, count)` for runs of neighbouring elements of a rectangle of
/// `size`, whose elements lie in two places by two lists of strides; a and b
/// are counted from its first element.
void forEachRun(
    std::span<const int64_t> size, std::span<const int64_t> stridesA,
    std::span<const int64_t> stridesB,
    const std::function<void(uint64_t a, uint64_t b, uint64_t count)> &run);

/// The rank that writes a shard of a state, out of those that hold the same
/// one. `number` lets the replicas of a group take turns.
int writerOf(const plan::PlanT &plan, const plan::GroupT &group, int rank,
             uint64_t number);

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_REGIONS_H
