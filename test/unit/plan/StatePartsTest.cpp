//===- StatePartsTest.cpp - What a plan may say of split states -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/StateParts.h"

#include "plan/Print.h"
#include "plan/Verify.h"
#include "support/Error.h"
#include "test/unit/plan/SamplePlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

using namespace fsdp;
using namespace fsdp::plan;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// The sample on two times as many ranks, of which neighbours hold a part each
/// of the weight, [6, 2] in the model, and of its averages.
PlanT splitPlan() {
  PlanT plan = test::samplePlan();
  plan.mesh.push_back(std::make_unique<AxisT>());
  plan.mesh[1]->name = "tp";
  plan.mesh[1]->size = 2;
  plan.groups[0]->stride = 2;
  plan.groups.push_back(std::make_unique<GroupT>());
  plan.groups[1]->name = "tp";
  plan.groups[1]->size = 2;
  plan.states[0]->source->bytes = 48;
  for (size_t i = 0; i < 3; ++i) {
    plan.states[i]->split_dim = 0;
    plan.states[i]->split_group = 1;
  }
  return plan;
}

TEST(StateParts, WholeIsLargerThanAPart) {
  PlanT plan = splitPlan();
  verifyPlan(plan);
  EXPECT_THAT(wholeShape(plan, *plan.states[0]), ElementsAre(6, 2));
  EXPECT_THAT(wholeShape(plan, *plan.states[3]), ElementsAre());
  EXPECT_EQ(splitOf(plan, *plan.states[0]), plan.groups[1].get());
  EXPECT_EQ(shardsOf(plan, *plan.states[0]), plan.groups[0].get());
  EXPECT_EQ(splitOf(plan, *plan.states[3]), nullptr);
  EXPECT_EQ(shardsOf(plan, *plan.states[3]), nullptr);
  EXPECT_THAT(printPlan(plan),
              HasSubstr("parameter \"w\" : f32[3, 2] split dim 0 over tp dim 0 "
                        "over shard @0 16 bytes"));
}

TEST(StateParts, AxesAreApart) {
  auto apart = [](uint32_t sizeA, uint32_t strideA, uint32_t sizeB,
                  uint32_t strideB) {
    GroupT a, b;
    a.size = sizeA, a.stride = strideA;
    b.size = sizeB, b.stride = strideB;
    EXPECT_EQ(areApart(a, b), areApart(b, a));
    return areApart(a, b);
  };
  EXPECT_TRUE(apart(2, 1, 4, 2));
  EXPECT_TRUE(apart(2, 1, 2, 4));
  EXPECT_TRUE(apart(2, 1, 1, 1));
  EXPECT_FALSE(apart(2, 1, 2, 1));
  EXPECT_FALSE(apart(4, 1, 2, 2));
  EXPECT_FALSE(apart(2, 1, 2, 3));
}

struct Case {
  const char *name;
  std::function<void(PlanT &)> damage;
  const char *message;
};

void PrintTo(const Case &value, std::ostream *stream) { *stream << value.name; }

class SplitRule : public testing::TestWithParam<Case> {};

TEST_P(SplitRule, IsChecked) {
  PlanT plan = splitPlan();
  GetParam().damage(plan);
  try {
    verifyPlan(plan);
    ADD_FAILURE() << "was accepted";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::ArtifactCorrupted);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  }
}

/// Adds a flat state over the first group, and its one member, which it
/// returns.
StateT &addFlat(PlanT &plan) {
  StateT &flat = *plan.states.emplace_back(std::make_unique<StateT>());
  flat.name = "flat";
  flat.shape = {4};
  flat.layout = Layout::flat;
  flat.shard_dim = 0;
  flat.bytes = 8;
  flat.offset = plan.memory->peak;
  plan.memory->peak += 128;
  StateT &member = *plan.states.emplace_back(std::make_unique<StateT>());
  member.name = "member";
  member.shape = {3};
  member.flat = static_cast<int32_t>(plan.states.size()) - 2;
  return member;
}

const Case kCases[] = {
    {"Dim", [](PlanT &p) { p.states[0]->split_dim = 2; },
     "state 'w' is split on a dim that it does not have"},
    {"NegativeDim", [](PlanT &p) { p.states[0]->split_dim = -2; },
     "is split on a dim that it does not have"},
    {"NoBlocks", [](PlanT &p) { p.states[0]->split_blocks = 0; },
     "is split in parts of no whole blocks"},
    {"UnevenBlocks", [](PlanT &p) { p.states[0]->split_blocks = 2; },
     "is split in parts of no whole blocks"},
    {"OtherBlocks", [](PlanT &p) { p.states[0]->split_blocks = 3; },
     "is not split as 'w', which it is of"},
    {"Group", [](PlanT &p) { p.states[0]->split_group = 2; },
     "is split over a group that does not exist"},
    {"OneRank", [](PlanT &p) { p.groups[1]->size = 1; },
     "is split over a group of one rank"},
    {"OwnGroup",
     [](PlanT &p) {
       for (size_t i = 0; i < 3; ++i)
         p.states[i]->split_group = 0;
     },
     "is split over ranks of the group that it is sharded over"},
    {"Random", [](PlanT &p) { p.states[5]->split_dim = 0; },
     "as no flat state and no random one is"},
    {"Record", [](PlanT &p) { p.states[0]->source->bytes = 24; },
     "has a record of 24 bytes, which does not hold its shape"},
    {"Init",
     [](PlanT &p) {
       p.states[0]->source.reset();
       p.states[0]->init.resize(48);
       verifyPlan(p);
       p.states[0]->init.resize(24);
     },
     "has an initial value that is neither one element nor all"},
    {"Size",
     [](PlanT &p) {
       p.mesh[1]->size = 1 << 20;
       p.groups[0]->stride = 1 << 20;
       p.groups[1]->size = 1 << 20;
       for (size_t i = 0; i < 3; ++i)
         p.states[i]->split_dim = -1;
       StateT &state = *p.states[3];
       state.shape = {0, int64_t{1} << 46};
       state.bytes = 0;
       state.split_dim = 1;
       state.split_group = 1;
     },
     "is part of a tensor of no valid shape"},
    {"Average", [](PlanT &p) { p.states[1]->split_dim = 1; },
     "state 'w/exp_avg' is not split as 'w', which it is of"},
    {"AverageWhole", [](PlanT &p) { p.states[2]->split_dim = -1; },
     "state 'w/exp_avg_sq' is not split as 'w', which it is of"},
    {"Flat",
     [](PlanT &p) {
       StateT &member = addFlat(p);
       member.split_dim = 0;
       member.split_group = 1;
       verifyPlan(p);
       p.states[p.states.size() - 2]->split_dim = 0;
       p.states[p.states.size() - 2]->split_group = 1;
     },
     "state 'flat' is split, as no flat state"},
    {"Member",
     [](PlanT &p) {
       StateT &member = addFlat(p);
       member.split_dim = 0;
       member.split_group = 0;
     },
     "state 'member' is split over ranks of the group that it is sharded over"},
};

INSTANTIATE_TEST_SUITE_P(Plan, SplitRule, testing::ValuesIn(kCases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
