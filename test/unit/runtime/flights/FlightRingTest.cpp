//===- FlightRingTest.cpp - A rank's last transfers -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/FlightRing.h"
#include "runtime/comm/flights/RecordedFabric.h"
#include "runtime/comm/local/Local.h"
#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using namespace fsdp;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

namespace {

TEST(FlightRing, KeepsTheLastThousand) {
  FlightRing ring(3);
  EXPECT_THAT(ring.snapshot().flights, IsEmpty());
  EXPECT_EQ(ring.snapshot().where, FlightRing::kBetween);
  for (uint64_t i = 0; i < 2345; ++i) {
    FlightEntry flight;
    flight.bytes = 10 * i;
    EXPECT_EQ(ring.add(flight), i);
  }
  FlightRing::Snapshot snapshot = ring.snapshot();
  EXPECT_EQ(snapshot.recorded, 2345u);
  ASSERT_THAT(snapshot.flights, SizeIs(FlightRing::kCapacity));
  for (size_t i = 0; i < snapshot.flights.size(); ++i) {
    EXPECT_EQ(snapshot.flights[i].number, 1345 + i);
    EXPECT_EQ(snapshot.flights[i].bytes, 10 * (1345 + i));
  }
}

TEST(FlightRing, MarksWhatIsStillThere) {
  FlightRing ring(0);
  uint64_t first = ring.add({});
  ring.setWaited(first, 5);
  EXPECT_EQ(ring.snapshot().flights[0].waited, 5);
  EXPECT_EQ(ring.snapshot().flights[0].completed, 0);
  ring.setCompleted(first, 6);
  EXPECT_EQ(ring.snapshot().flights[0].completed, 6);
  for (size_t i = 0; i < FlightRing::kCapacity; ++i)
    ring.add({});
  // In its place is another one now.
  ring.setWaited(first, 7);
  ring.setCompleted(first, 8);
  for (const FlightEntry &flight : ring.snapshot().flights) {
    EXPECT_EQ(flight.waited, 0);
    EXPECT_EQ(flight.completed, 0);
  }
}

TEST(FlightRing, CutsLongNames) {
  FlightEntry flight;
  flight.setBucket(std::string(500, 'x'));
  EXPECT_EQ(flight.bucketText(), std::string(flight.bucket.size(), 'x'));
  flight.setBucket("layers.0");
  EXPECT_EQ(flight.bucketText(), "layers.0");
}

TEST(FlightRing, SaysWhetherAProgramHasBegun) {
  FlightRing ring(0);
  ring.add({});
  EXPECT_FALSE(ring.hasBegun());
  FlightEntry flight;
  flight.program = 0;
  ring.add(flight);
  EXPECT_TRUE(ring.hasBegun());
}

TEST(FlightRing, GroupsOfOneNameAreCounted) {
  FlightRing ring(0);
  FlightGroup &first = ring.addGroup("a", {0, 1});
  EXPECT_EQ(ring.addGroup("b", {0, 1}).ordinal, 0u);
  EXPECT_EQ(ring.addGroup("a", {0, 2}).ordinal, 0u);
  EXPECT_EQ(ring.addGroup("a", {0, 1}).ordinal, 1u);
  EXPECT_EQ(first.index, 0u);
  EXPECT_EQ(ring.snapshot().groups.front().group, &first);
}

TEST(FlightRing, IsReadWhileItIsWritten) {
  FlightRing ring(0);
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i)
    writers.emplace_back([&] {
      for (uint64_t n = 0; !stop; ++n) {
        FlightEntry flight;
        flight.bytes = n;
        flight.step = 3 * n;
        flight.issued = static_cast<int64_t>(7 * n);
        flight.setBucket(std::to_string(n));
        ring.setCompleted(ring.add(flight), static_cast<int64_t>(n));
      }
    });
  size_t seen = 0;
  while (seen < 100'000)
    for (const FlightEntry &flight : ring.snapshot().flights) {
      ++seen;
      EXPECT_EQ(flight.step, 3 * flight.bytes);
      EXPECT_EQ(flight.issued, static_cast<int64_t>(7 * flight.bytes));
      EXPECT_EQ(flight.bucketText(), std::to_string(flight.bytes));
    }
  stop = true;
  for (std::thread &writer : writers)
    writer.join();
}

/// Two ranks as threads, with a fabric that is written down each.
struct Pair {
  explicit Pair(std::chrono::milliseconds deadline = std::chrono::minutes(1))
      : made(makeLocalFabrics(2, deadline)) {
    for (int rank = 0; rank < 2; ++rank)
      fabrics.push_back(
          std::make_unique<RecordedFabric>(std::move(made[rank]), rings[rank]));
  }
  /// Runs `body` with each rank's, on threads of their own.
  template <typename Body>
  void run(Body body) {
    std::thread other([&] { body(*fabrics[1], 1); });
    body(*fabrics[0], 0);
    other.join();
  }

  FlightRing rings[2]{FlightRing(0), FlightRing(1)};
  std::vector<std::unique_ptr<Fabric>> made;
  std::vector<std::unique_ptr<Fabric>> fabrics;
};

TEST(RecordedFabric, WritesDownWhatGoesThrough) {
  Pair pair;
  pair.run([](Fabric &fabric, int rank) {
    EXPECT_EQ(fabric.exchange("key", std::to_string(rank))[1], "1");
    auto communicator = fabric.createCommunicator({"group", {0, 1}});
    float mine = 1, both[2];
    for (uint64_t step = 0; step < 3; ++step) {
      Member member{&mine, both, sizeof(mine)};
      communicator->wait(communicator->start(
          {{CollectiveKind::all_gather, "layers.0", step, 0, 7},
           {&member, 1}}));
    }
    float sum = 1;
    Member member{&sum, &sum, 1, plan::DType::f32};
    communicator->wait(
        communicator->start({{CollectiveKind::all_reduce, "norm", 2},
                             {&member, 1},
                             plan::Reduction::sum}));
    EXPECT_EQ(sum, 2);
  });
  for (const FlightRing &ring : pair.rings) {
    FlightRing::Snapshot snapshot = ring.snapshot();
    ASSERT_THAT(snapshot.flights, SizeIs(6));
    ASSERT_THAT(snapshot.groups, SizeIs(1));
    EXPECT_EQ(snapshot.groups[0].group->name, "group");
    EXPECT_THAT(snapshot.groups[0].group->ranks, ElementsAre(0, 1));
    EXPECT_EQ(snapshot.groups[0].issued, 4u);
    EXPECT_EQ(snapshot.flights[0].kind, FlightKind::exchange);
    EXPECT_EQ(snapshot.flights[0].bucketText(), "key");
    EXPECT_EQ(snapshot.flights[1].kind, FlightKind::connect);
    for (uint64_t i = 0; i < 3; ++i) {
      const FlightEntry &flight = snapshot.flights[2 + i];
      EXPECT_EQ(flight.kind, toFlight(CollectiveKind::all_gather));
      EXPECT_EQ(flight.bucketText(), "layers.0");
      EXPECT_EQ(flight.position, i);
      EXPECT_EQ(flight.step, i);
      EXPECT_EQ(flight.program, 0);
      EXPECT_EQ(flight.instruction, 7);
      EXPECT_EQ(flight.bytes, 8u); // of both shards
    }
    EXPECT_EQ(snapshot.flights[5].kind, toFlight(CollectiveKind::all_reduce));
    EXPECT_EQ(snapshot.flights[5].bytes, 4u);
    EXPECT_EQ(snapshot.flights[5].program, -1);
    for (const FlightEntry &flight : snapshot.flights) {
      EXPECT_GT(flight.issued, 0);
      EXPECT_GE(flight.waited, flight.issued);
      EXPECT_GE(flight.completed, flight.waited);
    }
  }
}

TEST(RecordedFabric, WhatFailsStaysOpen) {
  Pair pair(std::chrono::milliseconds(50));
  pair.run([](Fabric &fabric, int rank) {
    auto communicator = fabric.createCommunicator({"group", {0, 1}});
    if (rank == 1)
      return;
    float mine = 1, both[2];
    Member member{&mine, both, sizeof(mine)};
    auto ticket = communicator->start(
        {{CollectiveKind::all_gather, "b", 0}, {&member, 1}});
    EXPECT_THROW(communicator->wait(ticket), Error);
  });
  const FlightEntry flight = pair.rings[0].snapshot().flights.back();
  EXPECT_EQ(flight.kind, toFlight(CollectiveKind::all_gather));
  EXPECT_GT(flight.waited, 0);
  EXPECT_EQ(flight.completed, 0);
  EXPECT_EQ(pair.rings[1].snapshot().groups[0].issued, 0u);
}

} // namespace
