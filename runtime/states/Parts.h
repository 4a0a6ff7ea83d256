//===- Parts.h - Which elements of a state a rank holds ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Regions here are in the coordinates of the model's tensor (wholeShape), of
// which a rank holds what the state's split and FSDP leave it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_STATES_PARTS_H
#define FSDP_RUNTIME_STATES_PARTS_H

#include "plan/plan_generated.h"
#include "runtime/states/Regions.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// A rectangle of the model's tensor that lies in a rank's arena. Its element
/// of index i lies `first + sum((i - region.offset) * strides)` elements behind
/// the begin of `home`.
struct Part {
  Region region;
  const plan::StateT *home; ///< the state itself, or the flat one it lies in
  uint64_t first = 0;
  std::vector<int64_t> strides;
};

/// Where `rank` keeps its elements of a state that is not flat itself, without
/// padding, in the order in which they lie; empty if it has none. What it has
/// of a member of a flat state lies without gaps.
std::vector<Part> ownParts(const plan::PlanT &plan, const plan::StateT &state,
                           int rank);

/// Of these, what lies in elements [first, first + count) of what the rank
/// holds of `home`.
std::vector<Part> ownPartsIn(const plan::PlanT &plan, const plan::StateT &state,
                             int rank, uint64_t first, uint64_t count);

/// Elements of `home`, a state with bytes of its own, that each rank has room
/// for.
uint64_t roomOf(const plan::StateT &home);

/// Elements of a member of a flat state that lie in some of the flat state's.
struct Overlap {
  uint64_t first = 0; ///< first one's number in the member
  uint64_t count = 0;
  uint64_t at = 0; ///< its number among the flat state's that were asked about
};

/// Those in elements [first, first + count) of the unsharded flat state.
Overlap overlapOf(const plan::StateT &member, uint64_t first, uint64_t count);

/// The groups that cut the model's tensor: at most two.
std::vector<const plan::GroupT *> cutsOf(const plan::PlanT &plan,
                                         const plan::StateT &state);

/// The ranks of the grid that `groups`, of different axes, make around `rank`,
/// ascending: they hold together what is cut by these groups.
std::vector<int> ranksAcross(const std::vector<const plan::GroupT *> &groups,
                             int rank);

/// The ranks that hold the same part of a state as `rank`, ascending.
std::vector<int> holdersOf(const plan::PlanT &plan, const plan::StateT &state,
                           int rank);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_PARTS_H
