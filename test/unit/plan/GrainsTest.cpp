//===- GrainsTest.cpp - One sum on any number of ranks --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Grains.h"

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <string>

using namespace fsdp;

namespace {

/// The tree as a text, "((0 1) 2)".
std::string treeOf(uint32_t first, uint32_t count) {
  if (count == 1)
    return std::to_string(first);
  uint32_t left = std::bit_ceil(count) / 2;
  return "(" + treeOf(first, left) + " " + treeOf(first + left, count - left) +
         ")";
}

std::string sum(std::vector<std::string> addends, const SumOrder &order) {
  std::vector<std::string> kept;
  auto merge = [&] {
    std::string right = kept.back();
    kept.pop_back();
    kept.back() = "(" + kept.back() + " " + right + ")";
  };
  for (size_t i = 0; i < addends.size(); ++i) {
    kept.push_back(addends[i]);
    for (uint8_t j = 0; j < order[i]; ++j)
      merge();
  }
  while (kept.size() > 1)
    merge();
  return kept.front();
}

/// As a rank sums its grains: partial sums in front of each, all at the end.
std::string sumOnRank(GrainBlock block) {
  std::vector<std::string> kept;
  for (uint32_t number = 0; number < block.count; ++number) {
    EXPECT_EQ(kept.size(), countKept(number));
    std::string grain = std::to_string(block.first + number);
    bool isLast = number + 1 == block.count;
    auto merges =
        isLast ? static_cast<int>(kept.size()) : std::countr_one(number);
    for (int i = 0; i < merges; ++i) {
      grain = "(" + kept.back() + " " + grain + ")";
      kept.pop_back();
    }
    kept.push_back(grain);
    if (!isLast) {
      EXPECT_LE(kept.size(), countPartialSums(block.count));
    }
  }
  return kept.front();
}

plan::PlanT makePlan(uint32_t grains, uint32_t replicas, uint32_t shards) {
  plan::PlanT plan;
  for (auto [name, size] :
       {std::pair("replicate", replicas), {"shard", shards}}) {
    plan.mesh.push_back(std::make_unique<plan::AxisT>());
    plan.mesh.back()->name = name;
    plan.mesh.back()->size = size;
  }
  plan.data_parallel = replicas * shards;
  plan.training = std::make_unique<plan::TrainingT>();
  plan.training->grains = grains;
  return plan;
}

plan::GroupT makeGroup(uint32_t size, uint32_t stride) {
  plan::GroupT group;
  group.size = size;
  group.stride = stride;
  return group;
}

/// Shards are summed first, then replicas.
std::string sumOverMesh(const plan::PlanT &plan, uint32_t replicas,
                        uint32_t shards) {
  std::vector<GrainBlock> blocks = dealGrains(plan);
  std::vector<std::string> parts;
  for (uint32_t replica = 0; replica < replicas; ++replica) {
    std::vector<std::string> own;
    for (uint32_t shard = 0; shard < shards; ++shard)
      own.push_back(sumOnRank(blocks[replica * shards + shard]));
    parts.push_back(sum(own, orderSums(plan, makeGroup(shards, 1),
                                       static_cast<int>(replica * shards))));
  }
  return sum(parts, orderSums(plan, makeGroup(replicas, shards), 0));
}

TEST(Grains, AreOneTreeOnEveryMesh) {
  for (uint32_t grains = 1; grains <= 33; ++grains)
    for (uint32_t replicas = 1; replicas <= 5; ++replicas)
      for (uint32_t shards = 1; shards <= 9; ++shards) {
        plan::PlanT plan = makePlan(grains, replicas, shards);
        if (dealGrains(plan).empty())
          continue;
        EXPECT_EQ(sumOverMesh(plan, replicas, shards), treeOf(0, grains))
            << grains << " " << replicas << " " << shards;
        // What is whole on every rank is summed at once.
        std::vector<std::string> all;
        for (const GrainBlock &block : dealGrains(plan))
          all.push_back(sumOnRank(block));
        EXPECT_EQ(sum(all, orderSums(plan, makeGroup(replicas * shards, 1), 0)),
                  treeOf(0, grains));
      }
}

TEST(Grains, AreDividedWithoutGapsAndGreatestFirst) {
  for (uint32_t grains = 1; grains <= 40; ++grains)
    for (uint32_t ranks = 1; ranks <= grains; ++ranks) {
      std::vector<GrainBlock> blocks = dealGrains(grains, 1, ranks);
      ASSERT_EQ(blocks.size(), ranks);
      uint32_t next = 0;
      for (const GrainBlock &block : blocks) {
        EXPECT_EQ(block.first, next);
        EXPECT_EQ(block.span, std::bit_ceil(block.count));
        next += block.count;
      }
      EXPECT_EQ(next, grains);
    }
  EXPECT_EQ(getMostGrains(dealGrains(8, 1, 3)), 4u);
  EXPECT_EQ(getMostGrains(dealGrains(8, 1, 6)), 2u);
  EXPECT_EQ(getMostGrains(dealGrains(8, 2, 3)), 2u);
}

TEST(Grains, AreNotFewerThanRanks) {
  EXPECT_TRUE(dealGrains(4, 1, 5).empty());
  EXPECT_TRUE(dealGrains(4, 5, 1).empty());
  EXPECT_TRUE(dealGrains(6, 2, 3).empty()); // 4 and 2
  EXPECT_FALSE(dealGrains(6, 3, 2).empty());
}

TEST(Grains, SayWhichWorldsNeedNotWait) {
  EXPECT_EQ(listEvenWorlds(8), "1, 2, 4, 8");
  EXPECT_EQ(listEvenWorlds(6), "1, 3, 6");
}

} // namespace
