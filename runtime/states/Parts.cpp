//===- Parts.cpp - Which elements of a state a rank holds -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/Parts.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "plan/StateParts.h"
#include "plan/Target.h"
#include "runtime/exec/Transfers.h"

#include <algorithm>

using namespace fsdp;

uint64_t fsdp::roomOf(const plan::StateT &home) {
  return home.bytes / dtypeBytes(home.dtype);
}

Overlap fsdp::overlapOf(const plan::StateT &member, uint64_t first,
                        uint64_t count) {
  uint64_t begin = member.flat_offset, end = begin;
  if (auto elements = checkedElements(member.shape))
    end += *elements;
  uint64_t from = std::max(begin, first), to = std::min(end, first + count);
  if (from >= to)
    return {};
  return {from - begin, to - from, from - first};
}

/// Parts of the split's part of a member.
static std::vector<Part> memberParts(const plan::PlanT &plan,
                                     const plan::StateT &state, int rank,
                                     uint64_t first, uint64_t count) {
  const plan::StateT &flat = *plan.states[state.flat];
  auto position =
      static_cast<uint64_t>(groupPosition(*plan.groups[flat.group], rank));
  Overlap own = overlapOf(state, position * roomOf(flat) + first, count);
  std::vector<int64_t> strides = contiguousStrides(state.shape);
  std::vector<Part> parts;
  uint64_t at = first + own.at;
  for (Region &region : toRegions(state.shape, own.first, own.count)) {
    uint64_t elements = region.elements();
    parts.push_back({std::move(region), &flat, at, strides});
    at += elements;
  }
  return parts;
}

/// Parts of the split's part of a state that has bytes of its own.
static std::vector<Part> shardParts(const plan::PlanT &plan,
                                    const plan::StateT &state, int rank,
                                    uint64_t first, uint64_t count) {
  std::vector<int64_t> local = state.shape;
  Region real = Region::all(local);
  int64_t begin = 0;
  if (const plan::GroupT *group = shardsOf(plan, state)) {
    auto dim = static_cast<size_t>(state.shard_dim);
    int64_t all = local[dim];
    local[dim] = shardRows(all, group->size);
    begin = std::min(groupPosition(*group, rank) * local[dim], all);
    real.size[dim] = std::min(local[dim], all - begin);
  }
  std::vector<int64_t> strides = contiguousStrides(local);
  std::vector<Part> parts;
  for (const Region &each : toRegions(local, first, count)) {
    Region region = intersect(each, real);
    if (region.elements() == 0)
      continue;
    uint64_t at = distance(region, real, strides);
    if (state.shard_dim >= 0)
      region.offset[static_cast<size_t>(state.shard_dim)] += begin;
    parts.push_back({std::move(region), &state, at, strides});
  }
  return parts;
}

/// `parts` of a rank's part of a split in the coordinates of the model's
/// tensor: those that reach into several blocks are cut at their borders.
static std::vector<Part> placeInBlocks(std::vector<Part> parts,
                                       const plan::StateT &state,
                                       const plan::GroupT &split, int rank) {
  auto dim = static_cast<size_t>(state.split_dim);
  int64_t own = state.shape[dim] / state.split_blocks; // rows of a block
  if (own == 0)
    return parts;
  std::vector<Part> placed;
  for (const Part &part : parts) {
    int64_t begin = part.region.offset[dim];
    int64_t end = begin + part.region.size[dim];
    for (int64_t at = begin; at < end;) {
      int64_t block = at / own;
      int64_t next = std::min(end, (block + 1) * own);
      Part &piece = placed.emplace_back(part);
      piece.first += static_cast<uint64_t>((at - begin) * part.strides[dim]);
      piece.region.size[dim] = next - at;
      piece.region.offset[dim] = block * own * split.size +
                                 groupPosition(split, rank) * own +
                                 (at - block * own);
      at = next;
    }
  }
  return placed;
}

std::vector<Part> fsdp::ownPartsIn(const plan::PlanT &plan,
                                   const plan::StateT &state, int rank,
                                   uint64_t first, uint64_t count) {
  std::vector<Part> parts = state.flat >= 0
                                ? memberParts(plan, state, rank, first, count)
                                : shardParts(plan, state, rank, first, count);
  if (const plan::GroupT *split = splitOf(plan, state))
    return placeInBlocks(std::move(parts), state, *split, rank);
  return parts;
}

std::vector<Part> fsdp::ownParts(const plan::PlanT &plan,
                                 const plan::StateT &state, int rank) {
  return ownPartsIn(plan, state, rank, 0, roomOf(homeOf(plan, state)));
}

std::vector<const plan::GroupT *> fsdp::cutsOf(const plan::PlanT &plan,
                                               const plan::StateT &state) {
  std::vector<const plan::GroupT *> groups;
  for (const plan::GroupT *group :
       {splitOf(plan, state), shardsOf(plan, state)})
    if (group)
      groups.push_back(group);
  return groups;
}

std::vector<int>
fsdp::ranksAcross(const std::vector<const plan::GroupT *> &groups, int rank) {
  std::vector<int> ranks{rank};
  for (const plan::GroupT *group : groups) {
    std::vector<int> more;
    for (int each : ranks)
      for (int member : groupRanks(*group, each))
        more.push_back(member);
    ranks = std::move(more);
  }
  std::ranges::sort(ranks);
  // The same group may be named twice.
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<int> fsdp::holdersOf(const plan::PlanT &plan,
                                 const plan::StateT &state, int rank) {
  std::vector<const plan::GroupT *> cuts = cutsOf(plan, state);
  std::vector<int> ranks;
  for (int each = 0; each < static_cast<int>(getWorldSize(plan)); ++each)
    if (std::ranges::all_of(cuts, [&](const plan::GroupT *group) {
          return groupPosition(*group, each) == groupPosition(*group, rank);
        }))
      ranks.push_back(each);
  return ranks;
}
