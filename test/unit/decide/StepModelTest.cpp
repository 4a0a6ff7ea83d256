//===- StepModelTest.cpp - A step whose decisions can be changed ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "decide/StepModel.h"

#include "simulate/Simulator.h"
#include "test/unit/decide/TwoLayers.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

class StepModelTest : public testing::Test {
protected:
  SmallPlan small = makeTwoLayers();
  Cluster cluster = plainCluster();
  StepModel model{small.plan, cluster};
  Outcome none = model.evaluate(model.none());
};

TEST_F(StepModelTest, IsTheSimulatorsForThePlanItself) {
  Prediction prediction = simulate(small.plan, cluster);
  EXPECT_NEAR(none.seconds, prediction.seconds, 1e-9);
  EXPECT_NEAR(none.exposed, prediction.exposed, 1e-9);
  EXPECT_EQ(none.peak, small.plan.memory->peak);
}

TEST_F(StepModelTest, KnowsWhatBucketsHold) {
  ASSERT_EQ(model.buckets().size(), 2u);
  for (const BucketFacts &each : model.buckets()) {
    EXPECT_TRUE(each.isRegathered);
    EXPECT_EQ(each.gathered, uint64_t(2e6 * kGather));
    EXPECT_NEAR(each.transfer, 1e-3 * kGather, 1e-6);
    EXPECT_EQ(each.prefetch, 1u);
  }
  EXPECT_EQ(model.buckets()[0].name, "layers.0");
  ASSERT_EQ(model.blocks().size(), 2u);
  for (const BlockFacts &each : model.blocks())
    EXPECT_GT(each.forward, 0);
  EXPECT_EQ(model.blocks()[0].saved, kActivation);
  // The second layer reads it in forward, so it is there anyway.
  EXPECT_EQ(model.blocks()[0].dropped, 0u);
  EXPECT_EQ(model.blocks()[1].dropped, kActivation);
}

TEST_F(StepModelTest, WhatIsKeptIsNotGatheredAgain) {
  Decisions decisions = model.none();
  decisions.kept = {false, true};
  Outcome kept = model.evaluate(decisions);
  // Backward waited for it with nothing to hide behind.
  EXPECT_NEAR(none.seconds - kept.seconds, 1e-3 * kGather, 1e-6);
  decisions.kept = {true, true};
  Outcome both = model.evaluate(decisions);
  EXPECT_LE(both.seconds, kept.seconds);
  EXPECT_GE(both.peak, none.peak);
}

TEST_F(StepModelTest, WhatIsComputedAgainTakesItsTimeAndGivesItsMemory) {
  Decisions decisions = model.none();
  decisions.recomputed = {Recomputed::none, Recomputed::full};
  Outcome again = model.evaluate(decisions);
  EXPECT_GT(again.seconds, none.seconds);
  // The second activation is made again at once: it never waits.
  EXPECT_LE(again.peak, none.peak);
  // Nothing of the first can be dropped.
  decisions.recomputed = {Recomputed::full, Recomputed::none};
  Outcome first = model.evaluate(decisions);
  EXPECT_NEAR(first.seconds, none.seconds, 1e-9);
  EXPECT_EQ(first.peak, none.peak);
}

TEST_F(StepModelTest, LooksNoFurtherAheadThanItIsTold) {
  Decisions decisions = model.none();
  decisions.prefetch = {0, 0};
  Outcome late = model.evaluate(decisions);
  EXPECT_GT(late.exposed, none.exposed);
  EXPECT_LE(late.peak, none.peak);
}

TEST_F(StepModelTest, GathersEachBucketSoFarAheadAsItIsTold) {
  Decisions decisions = model.none();
  decisions.prefetch = {0, 1};
  Outcome second = model.evaluate(decisions);
  // The first is gathered late for backward: its layer waits for all of it.
  EXPECT_NEAR(second.seconds - none.seconds, 1e-3 * kGather, 1e-4);
  // What is needed in front of one that is gathered early starts no later.
  decisions.prefetch = {2, 0};
  EXPECT_LE(model.evaluate(decisions).seconds, none.seconds + 1e-3 * kGather);
}

TEST_F(StepModelTest, BlocksAreThoseThatItIsTold) {
  StepModel other(small.plan, cluster, {"layers.1"});
  ASSERT_EQ(other.blocks().size(), 1u);
  EXPECT_EQ(other.buckets().size(), 2u);
  EXPECT_EQ(other.blocks()[0].dropped, kActivation);
  Decisions decisions = other.none();
  decisions.recomputed = {Recomputed::full};
  EXPECT_GT(other.evaluate(decisions).seconds, none.seconds);
}

TEST_F(StepModelTest, IsTheSameEachTime) {
  Decisions decisions = model.none();
  decisions.kept = {true, false};
  decisions.recomputed = {Recomputed::none, Recomputed::full};
  Outcome first = model.evaluate(decisions);
  StepModel other(small.plan, cluster);
  Outcome second = other.evaluate(decisions);
  EXPECT_EQ(first.seconds, second.seconds);
  EXPECT_EQ(first.peak, second.peak);
}

} // namespace
