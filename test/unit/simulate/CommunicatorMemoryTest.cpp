//===- CommunicatorMemoryTest.cpp - What communicators hold ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/CommunicatorMemory.h"

#include "simulate/Simulator.h"
#include "test/unit/simulate/SmallPlan.h"

#include <gtest/gtest.h>

using namespace fsdp;
using fsdp::test::plainCluster;
using fsdp::test::SmallPlan;

namespace {

/// Two gathers of 2 MB in flight at once, and later a reduction of 2 MB.
SmallPlan samplePlan() {
  SmallPlan small;
  uint32_t first = small.gather(1), second = small.gather(1);
  small.wait(first);
  small.wait(second);
  small.wait(small.reduce(1));
  return small;
}

TEST(CommunicatorMemory, IsOfEachGroupAndStream) {
  SmallPlan small = samplePlan();
  Cluster cluster = plainCluster();
  cluster.network.communicator = 5e6;
  CommunicatorMemory memory =
      getCommunicatorMemory(small.plan, cluster.network);
  EXPECT_EQ(memory.count, 2u);
  EXPECT_EQ(memory.bytes, 10000000u);
  Prediction prediction = simulate(small.plan, cluster);
  EXPECT_EQ(prediction.communicators, 10000000u);
  EXPECT_EQ(prediction.held(), 100000000u + 4096 + 10000000);
  // 890 MB are what all the rest leaves.
  cluster.network.communicator = 450e6 - 2048;
  EXPECT_TRUE(simulate(small.plan, cluster).fits());
  cluster.network.communicator += 1;
  EXPECT_FALSE(simulate(small.plan, cluster).fits());
}

TEST(CommunicatorMemory, IsNoneOfARankAlone) {
  SmallPlan small = samplePlan();
  small.plan.groups[0]->size = 1;
  Cluster cluster = plainCluster();
  cluster.network.communicator = 5e6;
  EXPECT_EQ(getCommunicatorMemory(small.plan, cluster.network).count, 0u);
}

TEST(CommunicatorMemory, HasWhatMessagesLieIn) {
  SmallPlan small = samplePlan();
  Cluster cluster = plainCluster();
  EXPECT_EQ(getCommunicatorMemory(small.plan, cluster.network).bytes, 0u);
  cluster.network.staging = true;
  // Large parts travel from and to their place; of a reduction those of peers
  // wait for all.
  EXPECT_EQ(getCommunicatorMemory(small.plan, cluster.network).bytes, 1000000u);
  // A second one that is in flight beside it needs as much again, one behind it
  // nothing.
  small.wait(small.reduce(1));
  EXPECT_EQ(getCommunicatorMemory(small.plan, cluster.network).bytes, 1000000u);
  uint32_t third = small.reduce(1), fourth = small.reduce(1);
  small.wait(third);
  small.wait(fourth);
  EXPECT_EQ(getCommunicatorMemory(small.plan, cluster.network).bytes, 2000000u);
  // Small members are packed: those of all ranks, as there are packed parts of
  // two gathers in flight.
  SmallPlan tiny;
  uint32_t a = tiny.gather(0.001), b = tiny.gather(0.001);
  tiny.wait(a);
  tiny.wait(b);
  EXPECT_EQ(getCommunicatorMemory(tiny.plan, cluster.network).bytes, 4000u);
}

} // namespace
