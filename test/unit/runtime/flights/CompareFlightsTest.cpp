//===- CompareFlightsTest.cpp - Which rank is behind ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/flights/CompareFlights.h"
#include "support/Error.h"
#include "test/unit/runtime/flights/SmallRecords.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

/// `world` ranks that came through two transfers of each group.
std::vector<FlightRecord> makeRecords(int world) {
  std::vector<FlightRecord> records;
  for (int rank = 0; rank < world; ++rank) {
    records.push_back(makeRecord(rank, world));
    for (int i = 0; i < 2; ++i)
      for (size_t group : {0, 1})
        addFlight(records.back(), group, Until::completed,
                  "layers." + std::to_string(i));
  }
  return records;
}

TEST(CompareFlights, NothingParts) {
  FlightComparison found = compareFlights(makeRecords(3));
  EXPECT_FALSE(found.isParted);
  EXPECT_THAT(found.behind, IsEmpty());
  EXPECT_THAT(found.text,
              AllOf(HasSubstr("nothing parts"), HasSubstr("3 of 3 ranks")));
}

TEST(CompareFlights, ARankThatLeftNoRecord) {
  auto records = makeRecords(4);
  for (int rank : {0, 1, 3})
    addFlight(records[rank], 0, Until::waited, "layers.2");
  // Started ahead, and nobody waits for it.
  addFlight(records[0], 1, Until::started, "layers.9");
  records.erase(records.begin() + 2);
  FlightComparison found = compareFlights(records);
  EXPECT_TRUE(found.isParted);
  EXPECT_THAT(found.behind, ElementsAre(2));
  EXPECT_EQ(found.collective, "all_gather of bucket 'layers.2' in step 4");
  EXPECT_THAT(
      found.text,
      AllOf(HasSubstr("rank 2 is behind, at all_gather of bucket 'layers.2'"),
            HasSubstr("number 2 of group 'a' of ranks 0-3"),
            HasSubstr("for layers.3 (model.py:11)"),
            HasSubstr("ranks 0, 1, 3 wait for it"),
            HasSubstr("rank 2 left no record")));
}

TEST(CompareFlights, ARankThatDidNotReachIt) {
  auto records = makeRecords(4);
  for (int rank : {0, 1, 3})
    addFlight(records[rank], 0, Until::waited, "layers.2");
  FlightComparison found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(2));
  EXPECT_THAT(found.text,
              AllOf(HasSubstr("rank 2 did not reach it: it was in step 4, "
                              "micro-batch 0, at instruction 12 of train/step: "
                              "aten::mm of layers.3.mlp (model.py:12)"),
                    HasSubstr("its last one of this group was all_gather of "
                              "bucket 'layers.1'")));
}

TEST(CompareFlights, ARankThatStartedAndWentElsewhere) {
  auto records = makeRecords(3);
  for (int rank : {0, 1})
    addFlight(records[rank], 0, Until::waited, "layers.2");
  addFlight(records[2], 0, Until::started, "layers.2");
  FlightComparison found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(2));
  EXPECT_THAT(found.text,
              HasSubstr("rank 2 started it, but does not wait for it"));
}

TEST(CompareFlights, AllAreInItAndOneIsNamedByItsPeers) {
  auto records = makeRecords(3);
  for (FlightRecord &record : records)
    addFlight(record, 0, Until::waited, "layers.2");
  FlightComparison found = compareFlights(records);
  EXPECT_TRUE(found.isParted);
  EXPECT_THAT(found.behind, IsEmpty());
  EXPECT_THAT(found.text, HasSubstr("all of its ranks are in"));
  for (int rank : {0, 2})
    records[rank].groups[0].awaited = 1;
  EXPECT_THAT(compareFlights(records).behind, ElementsAre(1));
  // When it goes on, the others have left, and it misses their parts.
  records[1].groups[0].awaited = 0;
  records[1].written += 1'000'000'000;
  found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(1));
  EXPECT_THAT(found.text, AllOf(HasSubstr("rank 1 waits for it, too"),
                                HasSubstr("ranks 0, 2 wait for it")));
}

/// It lacks the part of one that has it complete, and that waits for it.
TEST(CompareFlights, ARankThatMissedWhatOthersSent) {
  auto records = makeRecords(3);
  for (int rank : {0, 1}) {
    addFlight(records[rank], 0, Until::completed, "layers.2");
    addFlight(records[rank], 0, Until::waited, "layers.3");
  }
  addFlight(records[2], 0, Until::waited, "layers.2");
  records[2].groups[0].awaited = 1;
  FlightComparison found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(2));
  EXPECT_EQ(found.collective, "all_gather of bucket 'layers.3' in step 4");
}

/// Rank 0 waits for rank 1, which waits for rank 2 somewhere else.
TEST(CompareFlights, WhoWaitsOnlyPassesItOn) {
  auto records = makeRecords(3);
  addFlight(records[0], 0, Until::waited, "layers.2");
  addFlight(records[1], 1, Until::waited, "norm");
  records[2].groups[0].issued = 3; // its record no longer has it
  FlightComparison found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(2));
  EXPECT_EQ(found.collective, "all_gather of bucket 'norm' in step 4");
  EXPECT_THAT(found.text, HasSubstr("rank 0 waits for all_gather of bucket "
                                    "'layers.2'"));
}

/// Its message may have reached one rank and not the other.
TEST(CompareFlights, ARankThatStoppedInTheMiddleOfASend) {
  auto records = makeRecords(3);
  addFlight(records[0], 0, Until::completed, "layers.2");
  addFlight(records[0], 1, Until::waited, "norm");
  addFlight(records[1], 0, Until::waited, "layers.2");
  records.pop_back();
  FlightComparison found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(2));
  EXPECT_EQ(found.collective, "all_gather of bucket 'layers.2' in step 4");
  EXPECT_THAT(found.text, Not(HasSubstr("complete without it")));
}

/// Whichever of the others began to wait first.
TEST(CompareFlights, TheFirstThatAnyRankLacksIsNamed) {
  auto records = makeRecords(3);
  addFlight(records[0], 0, Until::completed, "layers.2");
  addFlight(records[0], 0, Until::waited, "layers.3");
  addFlight(records[1], 0, Until::waited, "layers.2").waited += 5'000'000'000;
  records.pop_back();
  FlightComparison found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(2));
  EXPECT_EQ(found.collective, "all_gather of bucket 'layers.2' in step 4");
}

TEST(CompareFlights, DifferentCollectivesInOnePlace) {
  auto records = makeRecords(3);
  addFlight(records[0], 0, Until::waited, "layers.2");
  addFlight(records[1], 0, Until::waited, "layers.3");
  addFlight(records[2], 0, Until::waited, "layers.2");
  FlightComparison found = compareFlights(records);
  EXPECT_TRUE(found.isParted);
  EXPECT_THAT(found.text,
              AllOf(HasSubstr("different collectives in one place"),
                    HasSubstr("  ranks 0, 2: all_gather of bucket 'layers.2'"),
                    HasSubstr("  rank 1: all_gather of bucket 'layers.3'")));
}

/// Waits of a device's back end do not block: it says itself what is over.
TEST(CompareFlights, TurnsOfADevice) {
  auto records = makeRecords(2);
  for (FlightRecord &record : records)
    for (auto &flight : record.collectives)
      flight.waited = flight.completed = 0;
  for (int rank : {0, 1})
    for (size_t group : {0, 1})
      records[rank].groups[group].turn = 2;
  EXPECT_FALSE(compareFlights(records).isParted);
  addFlight(records[0], 0, Until::started, "layers.2");
  addFlight(records[0], 0, Until::started, "layers.3");
  records[0].groups[0].turnBegan = 900'000'000'000;
  FlightComparison found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(1));
  EXPECT_EQ(found.collective, "all_gather of bucket 'layers.2' in step 4");
  EXPECT_THAT(found.text, HasSubstr("for 100.0 s"));
}

TEST(CompareFlights, ARankThatNobodyWaitsForIsNotBehind) {
  auto records = makeRecords(3);
  addFlight(records[0], 0, Until::started, "layers.2");
  addFlight(records[2], 0, Until::started, "layers.2");
  EXPECT_FALSE(compareFlights(records).isParted);
  records[0].collectives.back().waited = records[0].written - 5;
  EXPECT_THAT(compareFlights(records).behind, ElementsAre(1));
  // What happened when the first record was there says nothing.
  records[1].written -= 10;
  EXPECT_FALSE(compareFlights(records).isParted);
}

TEST(CompareFlights, WhatARankDidWhenItWentOnDoesNotCount) {
  auto records = makeRecords(3);
  for (int rank : {0, 2})
    addFlight(records[rank], 0, Until::waited, "layers.2");
  // It was stopped before it started what the others wait for.
  int64_t end = records[0].written;
  FlightRecord &stopped = records[1];
  stopped.written += 5'000'000'000;
  for (const char *bucket : {"layers.2", "layers.3"}) {
    auto &flight = addFlight(stopped, 0, Until::completed, bucket);
    flight.issued = flight.waited = flight.completed = end + 1'000'000;
  }
  stopped.collectives.back().completed = 0;
  stopped.groups[0].awaited = 2;
  FlightComparison found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(1));
  EXPECT_EQ(found.collective, "all_gather of bucket 'layers.2' in step 4");
  EXPECT_THAT(found.text, HasSubstr("rank 1 did not reach it"));
  // Clocks of two machines may differ.
  stopped.host = "other";
  EXPECT_THAT(compareFlights(records).behind, Not(ElementsAre(1)));
  // A record that does not go back so far says nothing.
  stopped.host = "host";
  stopped.collectives.erase(stopped.collectives.begin(),
                            stopped.collectives.end() - 2);
  stopped.groups[0].issued = 1000;
  for (auto &flight : stopped.collectives)
    flight.position += 500;
  EXPECT_THAT(compareFlights(records).behind, Not(ElementsAre(1)));
}

TEST(CompareFlights, ExchangesGoByTheirKeys) {
  auto records = makeRecords(3);
  for (int rank : {0, 1}) {
    auto &flight = addFlight(records[rank], 0, Until::waited, "loaded");
    --records[rank].groups[0].issued;
    flight.kind = FlightKind::exchange;
    flight.group.reset();
    flight.position = 0;
  }
  FlightComparison found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(2));
  EXPECT_EQ(found.collective, "exchange of 'loaded'");
  // Unless the record does not go back so far.
  records[2].recorded += 1000;
  for (auto &flight : records[2].collectives)
    flight.issued += 500'000'000'000;
  EXPECT_THAT(compareFlights(records).behind, Not(ElementsAre(2)));
}

TEST(CompareFlights, WhatWasAskedForBeforeAFailureIsNotLookedAt) {
  auto records = makeRecords(3);
  for (int rank : {0, 2})
    addFlight(records[rank], 0, Until::waited, "layers.2");
  records[1].isAsked = true;
  records[1].written = 1;
  FlightComparison found = compareFlights(records);
  EXPECT_THAT(found.behind, ElementsAre(1));
  EXPECT_EQ(found.collective, "all_gather of bucket 'layers.2' in step 4");
  EXPECT_THAT(found.text, AllOf(HasSubstr("rank 1 left no record\n"),
                                HasSubstr("of rank 1 there is only what")));
  // If all were asked for, they are compared.
  records[1].written = records[0].written;
  for (FlightRecord &record : records)
    record.isAsked = true;
  EXPECT_THAT(compareFlights(records).text, HasSubstr("3 of 3 ranks"));
}

TEST(CompareFlights, RecordsOfOneRunAlone) {
  EXPECT_THROW(compareFlights({}), Error);
  auto records = makeRecords(2);
  records[1].rank = 0;
  EXPECT_THROW(compareFlights(records), Error);
  records = makeRecords(2);
  records[1].plan = "4567";
  EXPECT_THROW(compareFlights(records), Error);
}

} // namespace
