//===- WorldsTest.cpp - One artifact for several numbers of ranks ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Worlds.h"

#include "plan/Print.h"
#include "plan/Target.h"
#include "plan/Writer.h"
#include "support/Error.h"
#include "test/unit/plan/RawArtifact.h"
#include "test/unit/plan/SamplePlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

plan::PlanT sampleFor(uint32_t world) {
  plan::PlanT plan = test::samplePlan();
  plan.mesh[0]->size = world;
  return plan;
}

std::string serializeFor(uint32_t world) {
  return serializePlan(sampleFor(world));
}

std::string joinTwo() {
  return joinWorlds(std::vector{serializeFor(4), serializeFor(2)});
}

template <typename Call>
ErrorId refusal(Call call, std::string *message = nullptr) {
  try {
    call();
  } catch (const Error &error) {
    if (message)
      *message = error.what();
    return error.id();
  }
  ADD_FAILURE() << "was taken";
  return ErrorId::KernelFailed;
}

TEST(Worlds, EachPlanIsTheArtifactThatItWasMadeOf) {
  std::string bytes = joinTwo();
  EXPECT_TRUE(WorldPlans::areSeveral(bytes));
  EXPECT_FALSE(PlanFile::isArtifact(bytes));
  WorldPlans plans = WorldPlans::fromBytes(bytes, "step.fsdp");
  EXPECT_THAT(plans.worlds(), ElementsAre(2, 4));
  for (uint32_t world : {2, 4}) {
    PlanFile alone = PlanFile::fromBytes(serializeFor(world), "alone");
    PlanFile file = plans.take(world);
    EXPECT_EQ(file.hash(), alone.hash());
    EXPECT_EQ(printPlan(file.plan()), printPlan(alone.plan()));
    EXPECT_EQ(fingerprintTraining(file.plan()), plans.training());
  }
  EXPECT_EQ(joinTwo(), bytes);
  EXPECT_EQ(joinWorlds(std::vector{serializeFor(2), serializeFor(4)}), bytes);
}

TEST(Worlds, OneIsAnArtifactAsEver) {
  std::string bytes = joinWorlds(std::vector{serializeFor(4)});
  EXPECT_EQ(bytes, serializeFor(4));
  EXPECT_FALSE(WorldPlans::areSeveral(bytes));
  WorldPlans plans = WorldPlans::fromBytes(bytes, "step.fsdp");
  EXPECT_THAT(plans.worlds(), ElementsAre(4));
  EXPECT_EQ(getWorldSize(plans.take().plan()), 4u);
}

TEST(Worlds, WhatIsNotThereIsRefusedWithWhatIs) {
  WorldPlans several = WorldPlans::fromBytes(joinTwo(), "step.fsdp");
  std::string message;
  EXPECT_EQ(refusal([&] { several.take(3); }, &message),
            ErrorId::WorldSizeMismatch);
  EXPECT_THAT(message, HasSubstr("'step.fsdp' has a plan for 2, 4 ranks, and 3 "
                                 "ranks are here"));
  EXPECT_EQ(refusal([&] { several.take(); }, &message), ErrorId::BadUsage);
  EXPECT_THAT(message, HasSubstr("2, 4 ranks"));
  EXPECT_THAT(message, HasSubstr("--world=N"));
  WorldPlans one = WorldPlans::fromBytes(serializeFor(2), "step.fsdp");
  EXPECT_EQ(refusal([&] { one.take(1); }, &message),
            ErrorId::WorldSizeMismatch);
  EXPECT_THAT(message, HasSubstr("a plan for 2 ranks, and 1 rank is here"));
}

TEST(Worlds, OnlyOneTrainingIsJoined) {
  std::string message;
  auto join = [&](const plan::PlanT &other) {
    return refusal(
        [&] { joinWorlds(std::vector{serializeFor(2), serializePlan(other)}); },
        &message);
  };
  EXPECT_EQ(join(sampleFor(2)), ErrorId::BadUsage);
  EXPECT_THAT(message, HasSubstr("give each number of ranks once"));
  for (auto change : {+[](plan::PlanT &plan) { plan.training->lr *= 2; },
                      +[](plan::PlanT &plan) { plan.training->seed++; },
                      +[](plan::PlanT &plan) { plan.compiler = "other"; },
                      +[](plan::PlanT &plan) { plan.data_parallel = 4; },
                      +[](plan::PlanT &plan) { plan.states[0]->name = "v"; },
                      +[](plan::PlanT &plan) { plan.model->bytes++; },
                      +[](plan::PlanT &plan) {
                        for (auto &each : plan.programs[0]->instructions)
                          if (plan::UpdateT *update = each->body.AsUpdate())
                            update->numbers.front() /= 2;
                      }}) {
    plan::PlanT other = sampleFor(4);
    change(other);
    EXPECT_EQ(join(other), ErrorId::BadUsage);
    EXPECT_THAT(message, HasSubstr("do not train the same"));
  }
}

TEST(Worlds, WhatIsAroundThePlansIsChecked) {
  std::string two = serializeFor(2), four = serializeFor(4);
  std::string training =
      WorldPlans::fromBytes(joinTwo(), "step.fsdp").training();
  auto read = [&](const std::string &bytes) {
    return refusal([&] {
      WorldPlans plans = WorldPlans::fromBytes(bytes, "step.fsdp");
      for (uint64_t world : std::vector(plans.worlds()))
        plans.take(world);
    });
  };
  WorldPlans::fromBytes(test::rawWorlds({{2, two}, {4, four}}, training),
                        "good")
      .take(4);
  EXPECT_EQ(read(test::rawWorlds({{2, two}, {4, four}}, training,
                                 kWorldsVersion + 1)),
            ErrorId::ArtifactNewer);
  for (const std::string &bytes :
       {test::rawWorlds({{2, two}, {4, four}}, training, 0),
        test::rawWorlds({{2, two}, {4, four}}, std::string(32, '0')),
        test::rawWorlds({{2, two}, {4, two}}, training),
        test::rawWorlds({{2, two}, {8, four}}, training),
        test::rawWorlds({{4, four}, {2, two}}, training),
        test::rawWorlds({{2, two}, {2, two}}, training),
        test::rawWorlds({{0, two}, {4, four}}, training),
        test::rawWorlds({{2, two}}, training), test::rawWorlds({}, training)})
    EXPECT_EQ(read(bytes), ErrorId::ArtifactCorrupted);
  EXPECT_EQ(read(test::rawWorlds({{2, two}, {4, joinTwo()}}, training)),
            ErrorId::NotAnArtifact);
}

TEST(Worlds, EveryTruncationIsRefused) {
  std::string bytes = joinTwo();
  for (size_t length = 0; length < bytes.size(); ++length) {
    ErrorId id = refusal([&] {
      printArtifact(WorldPlans::fromBytes(bytes.substr(0, length), "step"));
    });
    EXPECT_TRUE(id == ErrorId::ArtifactCorrupted ||
                id == ErrorId::NotAnArtifact)
        << "at " << length;
  }
}

// Found by a hash, by the order of the plans, by the fingerprint of the
// training, or nothing that anybody reads.
TEST(Worlds, EveryFlippedByteIsRefusedOrHarmless) {
  std::string bytes = joinTwo();
  std::string text = printArtifact(WorldPlans::fromBytes(bytes, "step.fsdp"));
  size_t harmless = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x81);
    try {
      EXPECT_EQ(printArtifact(WorldPlans::fromBytes(damaged, "step.fsdp")),
                text)
          << "at " << i;
      ++harmless;
    } catch (const Error &error) {
      EXPECT_EQ(error.exitStatus(), 1) << error.what();
    }
  }
  EXPECT_LT(harmless, 200u);
}

} // namespace
