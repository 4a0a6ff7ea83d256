//===- Grains.h - A step that is one sum on any number of ranks -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradients of a step's grains are summed in one binary tree: grains are
// its leaves, from left to right, and its inner nodes begin at multiples of the
// powers of two that they span, so that a number of grains that is none lacks
// leaves at its right end alone. A rank computes the leaves of one node. Where
// ranks meet, their nodes' sums are summed by the same tree.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_GRAINS_H
#define FSDP_PLAN_GRAINS_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

/// The most that a step may have.
constexpr uint32_t kMaxGrains = 1 << 20;

/// A node of the tree: `count` grains from `first` on, of the `span` leaves, a
/// power of two below 2 * count, that a full node would have.
struct GrainBlock {
  uint32_t first = 0, count = 0, span = 1;

  bool operator==(const GrainBlock &) const = default;
};

/// What each rank computes, in the order of the ranks: the tree is divided
/// among `replicas`, and each one's node among its `shards` ranks, always the
/// greatest node next. Empty if there are too few grains for one a rank.
std::vector<GrainBlock> dealGrains(uint32_t grains, uint32_t replicas,
                                   uint32_t shards);

/// Grains of the rank that has most: the micro-batches of a step.
uint32_t getMostGrains(std::span<const GrainBlock> blocks);

/// The order of a sum: behind addend i, so many times the last two sums that
/// are there become one; at the end all of them, from the last one on.
using SumOrder = std::vector<uint8_t>;

/// Of the sums of `blocks`, which follow one another and are all of a node.
SumOrder orderSums(std::span<const GrainBlock> blocks);

/// Sums of earlier grains that are kept while a rank computes so many.
uint32_t countPartialSums(uint32_t grains);

/// Those that are kept in front of grain `number` of the rank's.
inline uint32_t countKept(uint32_t number) {
  return static_cast<uint32_t>(__builtin_popcount(number));
}

/// "2, 3, 4, 8": numbers up to 16, and `grains`, that can be divided among so
/// many ranks without one waiting for another.
std::string listEvenWorlds(uint32_t grains);

/// Of a plan with grains (Plan.training.grains above 0, checked when it is
/// read), by data rank.
std::vector<GrainBlock> dealGrains(const plan::PlanT &plan);

/// The order in which the ranks of a group are summed, whose ranks `stride`
/// apart stand for all ranks between them.
SumOrder orderSums(const plan::PlanT &plan, const plan::GroupT &group,
                   int rank);

} // namespace fsdp

#endif // FSDP_PLAN_GRAINS_H
