//===- SearchTest.cpp - The best decisions within a budget ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "decide/Search.h"

#include "test/unit/decide/TwoLayers.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

class SearchTest : public testing::Test {
protected:
  SmallPlan small = makeTwoLayers();
  Cluster cluster = plainCluster();
  StepModel model{small.plan, cluster};
};

TEST_F(SearchTest, LessMemoryIsNeverFaster) {
  Search search(model, {});
  const std::vector<Candidate> &front = search.frontier();
  ASSERT_GE(front.size(), 2u);
  for (size_t i = 1; i < front.size(); ++i) {
    EXPECT_GE(front[i].outcome.seconds, front[i - 1].outcome.seconds);
    EXPECT_LT(front[i].outcome.peak, front[i - 1].outcome.peak);
  }
}

TEST_F(SearchTest, ChoosesTheFastestThatFits) {
  Search search(model, {});
  for (const Candidate &each : search.frontier()) {
    std::optional<Candidate> chosen = search.choose(each.outcome.peak);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->decisions, each.decisions);
  }
  EXPECT_FALSE(search.choose(search.frontier().back().outcome.peak - 1));
}

/// Every combination of decisions: with two buckets there are few.
TEST_F(SearchTest, IsAsGoodAsTryingEverything) {
  SearchOptions options;
  options.offloads = false;
  Search search(model, options);
  for (const Candidate &budget : search.frontier()) {
    double best = budget.outcome.seconds;
    for (unsigned bits = 0; bits < 16; ++bits)
      for (uint32_t prefetch = 1; prefetch <= 3; ++prefetch)
        for (bool selective : {false, true}) {
          Decisions decisions = model.none();
          decisions.kept = {(bits & 1) != 0, (bits & 2) != 0};
          decisions.recomputed = {(bits & 4) != 0, (bits & 8) != 0};
          decisions.prefetch = prefetch;
          decisions.selective = selective;
          Outcome outcome = model.evaluate(decisions);
          if (outcome.peak <= budget.outcome.peak)
            best = std::min(best, outcome.seconds);
        }
    EXPECT_NEAR(budget.outcome.seconds, best, 0.02 * best);
  }
}

TEST_F(SearchTest, LeavesAloneWhatItMayNotDecide) {
  SearchOptions options;
  options.keeps = options.recomputes = options.offloads = false;
  options.leastPrefetch = options.mostPrefetch = 2;
  Search search(model, options);
  ASSERT_EQ(search.frontier().size(), 1u);
  Decisions expected = model.none();
  expected.prefetch = 2;
  EXPECT_EQ(search.frontier().front().decisions, expected);
}

} // namespace
