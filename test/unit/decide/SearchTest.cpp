//===- SearchTest.cpp - The best decisions within a budget ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "decide/Search.h"

#include "test/unit/decide/Layers.h"
#include "test/unit/decide/TwoLayers.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

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

TEST_F(SearchTest, FindsTheFastestOfTheCurveThatFits) {
  Search search(model, {});
  for (const Candidate &each : search.frontier()) {
    std::optional<Candidate> found = search.find(each.outcome.peak);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->decisions, each.decisions);
    std::optional<Candidate> chosen = search.choose(each.outcome.peak);
    ASSERT_TRUE(chosen);
    EXPECT_LE(chosen->outcome.seconds, each.outcome.seconds);
    EXPECT_LE(chosen->outcome.peak, each.outcome.peak);
  }
  EXPECT_FALSE(search.choose(search.frontier().back().outcome.peak - 1));
}

TEST_F(SearchTest, LeavesAloneWhatItMayNotDecide) {
  SearchOptions options;
  options.keeps = options.recomputes = options.offloads = options.prefetches =
      false;
  Search search(model, options);
  ASSERT_EQ(search.frontier().size(), 1u);
  EXPECT_EQ(search.frontier().front().decisions, model.none());
  EXPECT_EQ(search.choose(UINT64_MAX)->decisions, model.none());
}

/// All decisions about so many buckets that are their own blocks: with few
/// there are few enough to try each.
template <typename Visit>
void visitAll(const StepModel &model, uint32_t mostPrefetch, Visit visit) {
  size_t count = model.buckets().size();
  size_t each = 2 * 2 * (mostPrefetch + 1), all = 1;
  for (size_t i = 0; i < count; ++i)
    all *= each;
  for (size_t number = 0; number < all; ++number) {
    Decisions decisions = model.none();
    size_t rest = number;
    for (size_t i = 0; i < count; ++i, rest /= each) {
      decisions.kept[i] = rest % 2 != 0;
      // Without products, selective recomputation is full.
      decisions.recomputed[i] =
          rest / 2 % 2 != 0 ? Recomputed::full : Recomputed::none;
      decisions.prefetch[i] = uint32_t(rest % each / 4);
    }
    visit(model.evaluate(decisions));
  }
}

class ExactTest : public testing::TestWithParam<uint32_t> {};

TEST_P(ExactTest, IsWithinTwoPercentOfTheBest) {
  SmallPlan small = makeLayers(drawLayers(4, GetParam()));
  Cluster cluster = plainCluster();
  StepModel model(small.plan, cluster);
  SearchOptions options;
  options.offloads = false;
  options.mostPrefetch = 2;
  Search search(model, options);

  // The fastest of each peak.
  std::map<uint64_t, double> best;
  visitAll(model, options.mostPrefetch, [&](const Outcome &outcome) {
    auto [it, isNew] = best.try_emplace(outcome.peak, outcome.seconds);
    it->second = std::min(it->second, outcome.seconds);
  });
  uint64_t least = best.begin()->first, most = best.rbegin()->first;
  ASSERT_LT(least, most);
  double bound = std::numeric_limits<double>::max(), slowest = 0, fastest = 0;
  auto next = best.begin();
  for (int i = 0; i <= 20; ++i) {
    uint64_t budget = least + (most - least) * uint64_t(i) / 20;
    for (; next != best.end() && next->first <= budget; ++next)
      bound = std::min(bound, next->second);
    std::optional<Candidate> chosen = search.choose(budget);
    ASSERT_TRUE(chosen) << "budget " << i;
    EXPECT_LE(chosen->outcome.peak, budget);
    EXPECT_LE(chosen->outcome.seconds, 1.02 * bound) << "budget " << i;
    EXPECT_GE(chosen->outcome.seconds, (1 - 1e-9) * bound);
    slowest = std::max(slowest, chosen->outcome.seconds);
    fastest = chosen->outcome.seconds;
  }
  EXPECT_GT(slowest, 1.05 * fastest) << "memory costs no time";
}

INSTANTIATE_TEST_SUITE_P(Layers, ExactTest, testing::Values(1, 2, 3, 4, 5, 6));

} // namespace
