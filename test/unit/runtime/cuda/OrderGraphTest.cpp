//===- OrderGraphTest.cpp - Which waits order accesses --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "OrderGraph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp::test;
using testing::ElementsAre;

namespace {

/// Actors a, b, c and some memory.
class Orders : public testing::Test {
protected:
  Orders() { order.keep(); }

  void use(CheckedOrder::Actor actor, bool isWrite, int place = 0) {
    order.work(actor,
               {{memory + 8 * place, 8, isWrite, order.seen().name(actor)}});
  }
  void wait(CheckedOrder::Actor actor, const CheckedOrder::Known &known) {
    order.follow(actor, known, /*isWait=*/true);
  }
  std::vector<WaitNeed> needs() const {
    std::vector<WaitNeed> all;
    for (const OrderGraph::Wait &wait : order.kept()->judgeWaits())
      all.push_back(wait.need);
    return all;
  }
  size_t races() const { return order.seen().races().size(); }

  CheckedOrder order;
  const CheckedOrder::Actor a = order.add("a"), b = order.add("b"),
                            c = order.add("c");
  char memory[64];
};

TEST_F(Orders, AWaitInFrontOfAConflictIsNeeded) {
  use(a, true);
  wait(b, order.known(a));
  use(b, false);
  EXPECT_THAT(needs(), ElementsAre(WaitNeed::needed));
}

TEST_F(Orders, AWaitForWhatIsKnownIsImplied) {
  use(a, true);
  CheckedOrder::Known written = order.known(a);
  wait(b, written);
  use(b, false);
  wait(c, order.known(b));
  wait(c, written); // through b
  use(c, true);
  EXPECT_THAT(needs(), ElementsAre(WaitNeed::needed, WaitNeed::needed,
                                   WaitNeed::implied));
}

TEST_F(Orders, OfTwoWaitsForTheSameEachIsImpliedByTheOther) {
  use(a, true);
  wait(b, order.known(a));
  wait(b, order.known(a));
  use(b, false);
  EXPECT_THAT(needs(), ElementsAre(WaitNeed::implied, WaitNeed::implied));
}

TEST_F(Orders, AWaitInFrontOfOtherBytesIsIdle) {
  use(a, true, 0);
  wait(b, order.known(a));
  use(b, true, 1);
  EXPECT_THAT(needs(), ElementsAre(WaitNeed::idle));
}

TEST_F(Orders, ReadersHaveNoConflict) {
  use(a, false);
  wait(b, order.known(a));
  use(b, false);
  EXPECT_THAT(needs(), ElementsAre(WaitNeed::idle));
}

TEST_F(Orders, NewMemoryHasNone) {
  use(a, true);
  order.forget(memory, 8);
  wait(b, order.known(a));
  use(b, true);
  EXPECT_THAT(needs(), ElementsAre(WaitNeed::idle));
}

/// The checker by clocks looks at the last access of each actor alone.
TEST_F(Orders, AConflictThatIsNotTheLastCounts) {
  use(a, true);
  CheckedOrder::Known first = order.known(a);
  wait(b, first);
  use(b, true);
  wait(c, order.known(b));
  use(c, true);
  EXPECT_THAT(needs(), ElementsAre(WaitNeed::needed, WaitNeed::needed));
  EXPECT_EQ(races(), 0u);
}

TEST_F(Orders, AMissingWaitIsJudgedByWhatItWouldHaveOrdered) {
  use(a, true);
  order.plant(b, order.known(a), {});
  use(b, false);
  EXPECT_EQ(order.kept()->judgePlanted(), WaitNeed::needed);
  EXPECT_EQ(races(), 1u);
}

TEST_F(Orders, AMissingWaitThatOthersImply) {
  use(a, true);
  CheckedOrder::Known written = order.known(a);
  order.plant(b, written, {});
  order.follow(b, written);
  use(b, false);
  EXPECT_EQ(order.kept()->judgePlanted(), WaitNeed::implied);
  EXPECT_EQ(races(), 0u);
}

TEST_F(Orders, AStaleWaitOrdersWhatWasBefore) {
  use(a, true, 0);
  CheckedOrder::Known before = order.known(a);
  use(a, true, 1);
  order.plant(b, order.known(a), before);
  use(b, false, 0);
  EXPECT_EQ(order.kept()->judgePlanted(), WaitNeed::idle);
  EXPECT_EQ(races(), 0u);
  use(b, false, 1);
  EXPECT_EQ(order.kept()->judgePlanted(), WaitNeed::needed);
  EXPECT_EQ(races(), 1u);
}

} // namespace
