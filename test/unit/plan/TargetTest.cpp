//===- TargetTest.cpp - Whose rows ranks read -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Target.h"

#include <gtest/gtest.h>

#include <memory>

using namespace fsdp;

namespace {

plan::PlanT makePlan(std::initializer_list<uint32_t> mesh, uint32_t readers) {
  plan::PlanT plan;
  for (uint32_t size : mesh) {
    plan.mesh.push_back(std::make_unique<plan::AxisT>());
    plan.mesh.back()->size = size;
  }
  plan.data_parallel = readers;
  return plan;
}

TEST(Target, RanksThatComputeTogetherReadTheSameRows) {
  plan::PlanT plan = makePlan({2, 3, 2}, 6);
  EXPECT_EQ(getWorldSize(plan), 12u);
  for (int rank = 0; rank < 12; ++rank)
    EXPECT_EQ(getDataRank(plan, rank), static_cast<uint64_t>(rank / 2));
}

TEST(Target, RanksReadTheirOwnRows) {
  plan::PlanT plan = makePlan({2, 3}, 6);
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(getDataRank(plan, rank), static_cast<uint64_t>(rank));
}

TEST(Target, OneBatchIsOneReader) {
  plan::PlanT plan = makePlan({1, 4}, 1);
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(getDataRank(plan, rank), 0u);
}

} // namespace
