//===- Grains.cpp - A step that is one sum on any number of ranks ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Grains.h"

#include "plan/Target.h"

#include <algorithm>
#include <bit>

using namespace fsdp;

static GrainBlock makeBlock(uint32_t first, uint32_t count) {
  return {first, count, std::bit_ceil(count)};
}

/// Empty if it has fewer than `parts` grains.
static std::vector<GrainBlock> divide(GrainBlock block, uint32_t parts) {
  if (block.count < parts)
    return {};
  std::vector<GrainBlock> blocks{block};
  while (blocks.size() < parts) {
    auto greatest = std::ranges::max_element(blocks, {}, &GrainBlock::count);
    GrainBlock whole = *greatest;
    uint32_t left = whole.span / 2;
    *greatest = makeBlock(whole.first + left, whole.count - left);
    blocks.insert(greatest, makeBlock(whole.first, left));
  }
  return blocks;
}

std::vector<GrainBlock> fsdp::dealGrains(uint32_t grains, uint32_t replicas,
                                         uint32_t shards) {
  std::vector<GrainBlock> all;
  for (const GrainBlock &replica : divide(makeBlock(0, grains), replicas)) {
    std::vector<GrainBlock> blocks = divide(replica, shards);
    if (blocks.empty())
      return {};
    all.insert(all.end(), blocks.begin(), blocks.end());
  }
  return all;
}

uint32_t fsdp::getMostGrains(std::span<const GrainBlock> blocks) {
  return std::ranges::max_element(blocks, {}, &GrainBlock::count)->count;
}

SumOrder fsdp::orderSums(std::span<const GrainBlock> blocks) {
  SumOrder order;
  std::vector<GrainBlock> kept;
  for (const GrainBlock &block : blocks) {
    order.push_back(0);
    kept.push_back(block);
    while (kept.size() > 1) {
      GrainBlock &left = kept[kept.size() - 2];
      if (left.span != kept.back().span || left.first % (2 * left.span) != 0)
        break;
      left = {left.first, left.count + kept.back().count, 2 * left.span};
      kept.pop_back();
      ++order.back();
    }
  }
  return order;
}

uint32_t fsdp::countPartialSums(uint32_t grains) {
  return static_cast<uint32_t>(std::bit_width(grains)) - 1;
}

std::string fsdp::listEvenWorlds(uint32_t grains) {
  std::string list;
  for (uint32_t ranks = 1; ranks <= grains; ++ranks) {
    std::vector<GrainBlock> blocks = dealGrains(grains, 1, ranks);
    if (uint64_t(getMostGrains(blocks)) * ranks == grains)
      list += (list.empty() ? "" : ", ") + std::to_string(ranks);
  }
  return list;
}

/// Ranks along an axis of the mesh that reads different rows; 1: there is none.
static uint32_t sizeOf(const plan::PlanT &plan, std::string_view axis) {
  for (const auto &each : plan.mesh)
    if (each->name == axis)
      return each->size;
  return 1;
}

std::vector<GrainBlock> fsdp::dealGrains(const plan::PlanT &plan) {
  uint32_t replicas = sizeOf(plan, "replicate");
  return dealGrains(plan.training->grains, replicas,
                    plan.data_parallel / replicas);
}

SumOrder fsdp::orderSums(const plan::PlanT &plan, const plan::GroupT &group,
                         int rank) {
  std::vector<GrainBlock> ranks = dealGrains(plan), blocks;
  uint32_t stride = group.stride;
  uint32_t first = static_cast<uint32_t>(rank) / (stride * group.size) *
                   (stride * group.size);
  for (uint32_t i = 0; i < group.size; ++i) {
    uint32_t begin = first + i * stride;
    uint32_t count = 0;
    for (uint32_t j = begin; j < begin + stride; ++j)
      count += ranks[j].count;
    blocks.push_back(makeBlock(ranks[begin].first, count));
  }
  return orderSums(blocks);
}
