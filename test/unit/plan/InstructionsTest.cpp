//===- InstructionsTest.cpp - What instructions do to values --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Instructions.h"
#include "plan/Traffic.h"
#include "test/unit/plan/SamplePlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using plan::Body;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

namespace {

class Instructions : public testing::Test {
protected:
  const plan::InstructionT &first(Body kind) const {
    for (const auto &each : plan.programs[0]->instructions)
      if (each->body.type == kind)
        return *each;
    throw std::logic_error("the sample has no such instruction");
  }
  const plan::InstructionT &first(CollectiveKind kind) const {
    for (const auto &each : plan.programs[0]->instructions)
      if (const plan::TransferT *transfer = transferOf(*each))
        if (transfer->kind == kind)
          return *each;
    throw std::logic_error("the sample has no such transfer");
  }
  template <typename Kind>
  std::vector<uint32_t> values(Kind kind, bool (*does)(Access)) const {
    return valuesOf(first(kind), does);
  }

  plan::PlanT plan = test::samplePlan();
};

TEST_F(Instructions, CallsReadTheirTensorsAndMakeTheirResults) {
  const auto &call = *plan.programs[0]->instructions[3];
  EXPECT_THAT(valuesOf(call, reads), ElementsAre(8, 5, 6));
  EXPECT_THAT(valuesOf(call, defines), ElementsAre(9, 10));
  EXPECT_THAT(valuesOf(call, changes), IsEmpty());
}

TEST_F(Instructions, UpdatesReadAndChangeStatesAndMayChangeGradients) {
  EXPECT_THAT(values(Body::Update, reads),
              UnorderedElementsAre(0, 16, 1, 2, 3, 4, 12));
  EXPECT_THAT(values(Body::Update, writes), UnorderedElementsAre(0, 1, 2));
  EXPECT_THAT(values(Body::Update, changes), UnorderedElementsAre(0, 16, 1, 2));
  EXPECT_THAT(values(Body::Update, defines), IsEmpty());
}

TEST_F(Instructions, CopiesDoNotReadWhatTheyReplace) {
  EXPECT_THAT(values(Body::Copy, reads), ElementsAre(12));
  EXPECT_THAT(values(Body::Copy, writes), ElementsAre(3));
  EXPECT_THAT(values(Body::Copy, changes), ElementsAre(3));
}

TEST_F(Instructions, CopiesBetweenMemoriesAreInFlightLikeTransfers) {
  EXPECT_THAT(values(Body::CopyAcross, reads), ElementsAre(15));
  EXPECT_THAT(values(Body::CopyAcross, defines), ElementsAre(17));
  EXPECT_THAT(values(Body::CopyAcross, changes), IsEmpty());
  std::optional<Flight> flight = flightOf(first(Body::CopyAcross));
  ASSERT_TRUE(flight);
  EXPECT_EQ(flight->future, 3u);
  EXPECT_FALSE(transferOf(first(Body::CopyAcross)));
  EXPECT_TRUE(flightOf(first(CollectiveKind::all_gather)));
  EXPECT_FALSE(flightOf(first(Body::Wait)));
}

TEST_F(Instructions, ResultsInPlaceOfAnOperandChangeIt) {
  EXPECT_THAT(values(CollectiveKind::all_reduce, changes), ElementsAre(12));
  EXPECT_THAT(values(Body::Accumulate, changes), ElementsAre(16));
  EXPECT_THAT(values(CollectiveKind::reduce_scatter, changes), IsEmpty());
}

TEST_F(Instructions, PaddingAndEndsNeitherReadNorWrite) {
  for (Body kind : {Body::ZeroPadding, Body::Free}) {
    EXPECT_THAT(values(kind, reads), IsEmpty());
    EXPECT_THAT(values(kind, writes), IsEmpty());
    EXPECT_EQ(valuesOf(first(kind)).size(), 1u);
  }
}

TEST_F(Instructions, StartsSayWhatTheyMove) {
  const plan::TransferT *start =
      transferOf(first(CollectiveKind::reduce_scatter));
  ASSERT_TRUE(start);
  EXPECT_EQ(start->bucket, "fc");
  EXPECT_EQ(start->future, 1u);
  EXPECT_EQ(bytesOf(*start, plan, *plan.programs[0]), 2 * 16u);
  EXPECT_FALSE(transferOf(first(Body::Wait)));
  EXPECT_FALSE(transferOf(first(Body::Call)));
}

} // namespace
