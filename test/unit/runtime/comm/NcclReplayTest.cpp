//===- NcclReplayTest.cpp - When a transfer of a launched graph hangs -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Harness.h"
#include "NcclHarness.h"
#include "NcclProcesses.h"
#include "runtime/comm/flights/RecordedFabric.h"

#include <gmock/gmock.h>

using namespace fsdp;
using namespace fsdp::test;
using namespace std::chrono_literals;
using testing::StartsWith;

namespace {

using Graph = RecordingStreams::Graph;

alignas(16) float shard[4] = {};
alignas(16) float full[64] = {};

/// One bucket's transfers, labelled with the step of the capture.
constexpr uint64_t kCaptureStep = 3;

Communicator::Ticket startGather(Communicator &communicator, const char *bucket,
                                 uint64_t step = kCaptureStep) {
  Member member{shard, full, sizeof(shard)};
  return communicator.start(
      {{CollectiveKind::all_gather, bucket, step}, {&member, 1}});
}

Communicator::Ticket startReduce(Communicator &communicator, const char *bucket,
                                 uint64_t step = kCaptureStep) {
  Member member{full, shard, 4, plan::DType::f32};
  return communicator.start({{CollectiveKind::reduce_scatter, bucket, step},
                             {&member, 1},
                             plan::Reduction::sum});
}

/// The number of the `nth` work of a graph that is called `what`, from 0.
size_t find(const RecordingStreams &streams, const Graph &graph,
            const std::string &what, size_t nth = 0) {
  std::vector<RecordingStreams::Work> all = streams.all();
  for (size_t number = graph.begin; number < graph.end; ++number)
    if (all[number].what == what && nth-- == 0)
      return number;
  throw std::logic_error("the graph has no such work");
}

class NcclReplay : public NcclTest {
protected:
  template <typename Body>
  Graph capture(Body body) {
    streams->beginCapture();
    body();
    return streams->endCapture();
  }

  /// matmul 0, gather a, matmul 1, gather b, matmul 2, gather c, each of which
  /// the next matmul waits for.
  Graph captureThree(Communicator &communicator) {
    Graph graph = capture([&] {
      for (const char *bucket : {"a", "b", "c"}) {
        streams->put(streams->compute(), "matmul");
        communicator.wait(startGather(communicator, bucket));
      }
    });
    EXPECT_EQ(communicator.keepCaptured(), captures++);
    return graph;
  }

  size_t launch(Communicator &communicator, const Graph &graph, uint64_t number,
                uint64_t step, const std::set<size_t> &held = {}) {
    communicator.launchCaptured(number, step);
    return streams->launch(graph, held);
  }

  /// What the watching thread finds.
  std::string lateError() {
    EXPECT_TRUE(eventually([&] { return peers->failure().has_value(); }));
    EXPECT_TRUE(eventually([&] {
      try {
        fabric->check();
      } catch (const Error &) {
        return true;
      }
      return false;
    }));
    return errorOf(ErrorId::DeadlinePassed, [&] { fabric->check(); });
  }

  uint64_t captures = 0;
};

TEST_F(NcclReplay, TheGraphCountsBeforeAndBehindEachTransfer) {
  connect(0, 2);
  auto communicator = world("dp");
  communicator->wait(startGather(*communicator, "a"));
  EXPECT_EQ(works("raise").size(), 0u); // nobody needs to count
  Graph graph = captureThree(*communicator);
  for (size_t i = 0; i < 3; ++i) {
    size_t begins = find(*streams, graph, "raise", 2 * i);
    size_t ends = find(*streams, graph, "raise", 2 * i + 1);
    size_t call = find(*streams, graph, "ncclAllGather", i);
    EXPECT_TRUE(streams->isBefore(find(*streams, graph, "matmul", i), begins));
    EXPECT_TRUE(streams->isBefore(begins, call));
    EXPECT_TRUE(streams->isBefore(call, ends));
    EXPECT_EQ(streams->all()[begins].stream, streams->find("dp"));
  }
}

TEST_F(NcclReplay, NamesTheTransferThatHangs) {
  for (size_t hanging = 0; hanging < 3; ++hanging) {
    SetUp();
    connect(0, 4, 400ms);
    peers->absent = {2, 3};
    captures = 0;
    auto communicator = world("dp");
    Graph graph = captureThree(*communicator);
    launch(*communicator, graph, 0, 6);
    auto begin = std::chrono::steady_clock::now();
    size_t call = find(*streams, graph, "ncclAllGather", hanging);
    size_t shift = launch(*communicator, graph, 0, 7, {call});
    EXPECT_EQ(lateError(),
              "rank 0: all_gather of bucket '" +
                  std::string(1, static_cast<char>('a' + hanging)) +
                  "' in step 7: expected ranks 2, 3 to take part "
                  "within 0.4 s, but did not");
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 400ms);
    EXPECT_TRUE(eventually([&] { return script->aborted == 1; }));
    streams->release(call + shift);
  }
}

TEST_F(NcclReplay, KernelsBeforeTheTransferAreNotBlamed) {
  connect(0, 2, 300ms);
  auto communicator = world("dp");
  Graph graph = captureThree(*communicator);
  std::vector<size_t> matmuls;
  for (size_t i = 0; i < 3; ++i)
    matmuls.push_back(find(*streams, graph, "matmul", i));
  size_t shift =
      launch(*communicator, graph, 0, 4, {matmuls.begin(), matmuls.end()});
  for (size_t matmul : matmuls) {
    std::this_thread::sleep_for(700ms);
    fabric->check();
    streams->release(matmul + shift);
  }
  launch(*communicator, graph, 0, 5);
  fabric->check();
  communicator.reset();
  EXPECT_EQ(script->aborted, 0);
  EXPECT_EQ(peers->failure(), std::nullopt);
}

TEST_F(NcclReplay, TransfersThatAreEachInTimeAreLeftAlone) {
  connect(0, 2, 1s);
  auto communicator = world("dp");
  Graph graph = captureThree(*communicator);
  auto begin = std::chrono::steady_clock::now();
  for (uint64_t step = 4; step < 9; ++step) {
    std::set<size_t> calls;
    for (size_t i = 0; i < 3; ++i)
      calls.insert(find(*streams, graph, "ncclAllGather", i));
    size_t shift = launch(*communicator, graph, 0, step, calls);
    for (size_t call : calls) {
      std::this_thread::sleep_for(150ms);
      fabric->check();
      streams->release(call + shift);
    }
  }
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 2s);
  EXPECT_EQ(script->aborted, 0);
  // Nor is a rank that has nothing to do.
  std::this_thread::sleep_for(1300ms);
  fabric->check();
  EXPECT_EQ(peers->failure(), std::nullopt);
}

TEST_F(NcclReplay, LaunchesThatQueueUpAreToldApart) {
  connect(0, 2, 400ms);
  peers->absent = {1};
  auto communicator = world("dp");
  Graph graph = captureThree(*communicator);
  size_t first = find(*streams, graph, "ncclAllGather", 0),
         second = find(*streams, graph, "ncclAllGather", 1);
  // All are launched before the first begins.
  size_t matmul = find(*streams, graph, "matmul");
  size_t shift = launch(*communicator, graph, 0, 11, {matmul});
  launch(*communicator, graph, 0, 12, {second});
  launch(*communicator, graph, 0, 13, {first});
  std::this_thread::sleep_for(600ms);
  fabric->check();
  streams->release(matmul + shift);
  EXPECT_EQ(lateError(),
            "rank 0: all_gather of bucket 'b' in step 12: expected "
            "rank 1 to take part within 0.4 s, but did not");
}

TEST_F(NcclReplay, GraphsOfSeveralProgramsAreToldApart) {
  connect(0, 2, 400ms);
  peers->absent = {1};
  auto communicator = world("dp");
  Graph three = captureThree(*communicator);
  Graph none = capture([&] { streams->put(streams->compute(), "matmul"); });
  EXPECT_EQ(communicator->keepCaptured(), captures++);
  Graph one =
      capture([&] { communicator->wait(startGather(*communicator, "last")); });
  EXPECT_EQ(communicator->keepCaptured(), captures++);
  for (uint64_t step = 5; step < 8; ++step) {
    launch(*communicator, three, 0, step);
    launch(*communicator, none, 1, step);
    launch(*communicator, three, 0, step);
    launch(*communicator, one, 2, step,
           step == 7 ? std::set{find(*streams, one, "ncclAllGather")}
                     : std::set<size_t>());
  }
  EXPECT_EQ(lateError(),
            "rank 0: all_gather of bucket 'last' in step 7: expected rank 1 to "
            "take part within 0.4 s, but did not");
}

/// Gathers and reductions overlap, and so do their counts.
TEST_F(NcclReplay, EachStreamIsLookedAfter) {
  for (bool gatherHangs : {true, false}) {
    SetUp();
    connect(0, 2, 400ms);
    peers->absent = {1};
    auto gathers = world("gathers"), reductions = world("reductions");
    Graph graph = capture([&] {
      auto first = startGather(*gathers, "a");
      auto reduced = startReduce(*reductions, "z");
      gathers->wait(first);
      auto second = startGather(*gathers, "b");
      reductions->wait(reduced);
      reduced = startReduce(*reductions, "y");
      gathers->wait(second);
      reductions->wait(reduced);
    });
    EXPECT_EQ(gathers->keepCaptured(), 0u);
    EXPECT_EQ(reductions->keepCaptured(), 0u);
    auto start = [&](uint64_t step, const std::set<size_t> &held) {
      gathers->launchCaptured(0, step);
      reductions->launchCaptured(0, step);
      return streams->launch(graph, held);
    };
    start(4, {});
    // The other stream goes on as far as it can.
    start(5, {gatherHangs ? find(*streams, graph, "ncclAllGather", 1)
                          : find(*streams, graph, "ncclReduceScatter", 0)});
    EXPECT_EQ(lateError(), std::string("rank 0: ") +
                               (gatherHangs ? "all_gather of bucket 'b'"
                                            : "reduce_scatter of bucket 'z'") +
                               " in step 5: expected rank 1 to take part "
                               "within 0.4 s, but did not");
    EXPECT_TRUE(eventually([&] { return script->aborted == 2; }));
    EXPECT_EQ(script->alive, 0);
  }
}

TEST_F(NcclReplay, TransfersBetweenLaunchesHaveTheirTurn) {
  connect(0, 2, 400ms);
  peers->absent = {1};
  auto communicator = world("dp");
  Graph graph = captureThree(*communicator);
  communicator->wait(startGather(*communicator, "first", 4));
  launch(*communicator, graph, 0, 5);
  launch(*communicator, graph, 0, 6);
  // Behind a graph that takes longer than the deadline.
  size_t matmul = find(*streams, graph, "matmul", 2);
  size_t shift = launch(*communicator, graph, 0, 7, {matmul});
  streams->hold(streams->find("dp"));
  communicator->wait(startGather(*communicator, "alone", 8));
  launch(*communicator, graph, 0, 9);
  std::this_thread::sleep_for(700ms);
  fabric->check();
  streams->release(matmul + shift);
  EXPECT_EQ(lateError(),
            "rank 0: all_gather of bucket 'alone' in step 8: expected rank 1 "
            "to take part within 0.4 s, but did not");
  // How far it came is the same for a rank that runs no graphs.
  EXPECT_EQ(peers->left("stuck/"), std::vector<std::string>{"10"});
  streams->release(streams->find("dp"));
}

TEST_F(NcclReplay, ACaptureThatFailedIsForgotten) {
  connect(0, 2, 400ms);
  peers->absent = {1};
  auto communicator = world("dp");
  capture([&] {
    startGather(*communicator, "lost");
    communicator->wait(startGather(*communicator, "gone"));
  });
  communicator->abandon();
  Graph graph = captureThree(*communicator);
  launch(*communicator, graph, 0, 5,
         {find(*streams, graph, "ncclAllGather", 1)});
  EXPECT_THAT(lateError(),
              StartsWith("rank 0: all_gather of bucket 'b' in step 5: "));
  EXPECT_EQ(peers->left("stuck/"), std::vector<std::string>{"1"});
}

/// The flight record numbers transfers as NCCL's turn does, with graphs and
/// without.
TEST_F(NcclReplay, TheFlightRecordKnowsWhoseTurnItIs) {
  FlightRing ring(0);
  connect(0, 2, 400ms);
  peers->absent = {1};
  fabric = std::make_unique<RecordedFabric>(std::move(fabric), ring);
  auto communicator = world("dp");
  capture([&] { communicator->wait(startGather(*communicator, "lost")); });
  communicator->abandon();
  Graph graph = captureThree(*communicator);
  communicator->wait(startGather(*communicator, "first", 4));
  launch(*communicator, graph, 0, 5);
  size_t call = find(*streams, graph, "ncclAllGather", 1);
  const FlightGroup &group = *ring.snapshot().groups[0].group;
  EXPECT_TRUE(group.reportsTurns());
  EXPECT_TRUE(eventually([&] { return group.getTurn().first == 4; }));
  EXPECT_EQ(group.getTurn().second, 0);
  int64_t before = FlightRing::now();
  launch(*communicator, graph, 0, 6, {call});
  EXPECT_TRUE(eventually(
      [&] { return group.getTurn().first == 5 && group.getTurn().second; }));
  EXPECT_GE(group.getTurn().second, before);
  FlightRing::Snapshot snapshot = ring.snapshot();
  EXPECT_EQ(snapshot.groups[0].issued, 7u);
  ASSERT_EQ(snapshot.flights.size(), 8u); // connecting, too
  EXPECT_EQ(snapshot.flights[6].position, 5u);
  EXPECT_EQ(snapshot.flights[6].bucketText(), "b");
  EXPECT_EQ(snapshot.flights[6].step, 6u);
  lateError();
  communicator.reset();
  fabric.reset();
}

TEST_F(NcclReplay, NothingIsLaunchedAfterAFailure) {
  connect(0, 2);
  auto communicator = world("dp");
  Graph graph = captureThree(*communicator);
  launch(*communicator, graph, 0, 5);
  peers->failElsewhere("rank 1 failed: the disk is full");
  EXPECT_EQ(
      errorOf(ErrorId::PeerFailed, [&] { communicator->launchCaptured(0, 6); }),
      "rank 0: all_gather of bucket 'a' in step 6: rank 1 failed: the disk is "
      "full");
}

TEST_F(NcclReplay, LeavingWaitsForTheLastLaunch) {
  connect(0, 2);
  auto communicator = world("dp");
  Graph graph = captureThree(*communicator);
  size_t matmul = find(*streams, graph, "matmul", 1);
  size_t shift = launch(*communicator, graph, 0, 5, {matmul});
  std::thread device([&] {
    std::this_thread::sleep_for(200ms);
    streams->release(matmul + shift);
  });
  auto begin = std::chrono::steady_clock::now();
  communicator.reset();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 150ms);
  device.join();
  EXPECT_EQ(script->destroyed, 1);
  EXPECT_EQ(script->aborted, 0);
  EXPECT_EQ(streams->liveCounters(), 0u);
  EXPECT_EQ(streams->liveEvents(), 0u);
}

/// NCCL ends a communicator's kernels at once, but returns only when all graphs
/// that hold some are gone, and those may wait for another communicator's.
TEST_F(NcclReplay, AllCommunicatorsAreAbortedWhileTheGraphIsThere) {
  connect(0, 2, 300ms);
  peers->absent = {1};
  auto first = world("first"), second = world("second");
  Graph graph = capture([&] {
    first->wait(startGather(*first, "a"));
    second->wait(startGather(*second, "b"));
  });
  first->keepCaptured();
  second->keepCaptured();
  script->isGraphAlive = true;
  first->launchCaptured(0, 5);
  second->launchCaptured(0, 5);
  streams->launch(graph, {find(*streams, graph, "ncclAllGather", 1)});
  EXPECT_THAT(lateError(),
              StartsWith("rank 0: all_gather of bucket 'b' in step 5: "));
  ASSERT_TRUE(eventually([&] { return script->aborting == 2; }));
  EXPECT_EQ(script->aborted, 0);
  // What fails on the rank's own thread does not wait for it, either.
  fabric->abort("it failed");
  script->isGraphAlive = false;
  first.reset();
  second.reset();
  EXPECT_EQ(script->aborted, 2);
  EXPECT_EQ(streams->liveStreams(), 1u);
}

/// Giving back what the device still writes to would wait for the device.
TEST_F(NcclReplay, WhatAGraphThatNeverEndsCountsIsKept) {
  connect(0, 2, 200ms);
  auto communicator = world("dp");
  captureThree(*communicator);
  script->isGraphAlive = true;
  communicator->launchCaptured(0, 5);
  fabric->abort("it failed");
  auto begin = std::chrono::steady_clock::now();
  communicator.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_EQ(script->aborted, 0);
  EXPECT_EQ(streams->liveCounters(), 1u);
  script->isGraphAlive = false;
  EXPECT_TRUE(eventually([&] { return script->aborted == 1; }));
}

//===----------------------------------------------------------------------===//
// Processes that meet in a store, as in a run
//===----------------------------------------------------------------------===//

void checkUntilItFails(Fabric &fabric) {
  auto end = std::chrono::steady_clock::now() + 25s;
  while (std::chrono::steady_clock::now() < end) {
    fabric.check();
    std::this_thread::sleep_for(10ms);
  }
}

/// Rank 1 stays away from step 6. Rank 0 runs its steps as graphs, and rank 2,
/// which could not capture them, does not. Rank 0 finds that the gather hangs,
/// and rank 2 that the reduction does, which it was in before.
TEST(NcclReplayProcesses, TheRankThatStaysAwayIsNamed) {
  auto outcomes = runRanks(processes(3, 4s), [](Fabric &fabric) {
    auto gathers = fabric.createCommunicator({"gathers", {0, 1, 2}});
    auto reductions = fabric.createCommunicator({"reductions", {0, 1, 2}});
    auto run = [&] {
      gathers->wait(startGather(*gathers, "a"));
      auto gathered = startGather(*gathers, "b");
      auto reduced = startReduce(*reductions, "z");
      gathers->wait(gathered);
      reductions->wait(reduced);
    };
    if (fabric.rank() != 0) {
      for (int step = 4; step < 6; ++step)
        run();
      if (fabric.rank() == 2) {
        gathers->wait(startGather(*gathers, "a", 6));
        device->hold(device->find("gathers"));
        device->hold(device->find("reductions"));
        fabric.exchange("step 6", "");
        startReduce(*reductions, "z", 6);
        std::this_thread::sleep_for(500ms);
        startGather(*gathers, "b", 6);
      } else {
        // It is there, but in a kernel.
        gathers->wait(startGather(*gathers, "a", 6));
        fabric.exchange("step 6", "");
      }
      return checkUntilItFails(fabric);
    }
    device->beginCapture();
    run();
    RecordingStreams::Graph graph = device->endCapture();
    gathers->keepCaptured();
    reductions->keepCaptured();
    for (uint64_t step = 4; step < 7; ++step) {
      std::set<size_t> held;
      if (step == 6) {
        held = {find(*device, graph, "ncclAllGather", 1),
                find(*device, graph, "ncclReduceScatter")};
        fabric.exchange("step 6", "");
      }
      gathers->launchCaptured(0, step);
      reductions->launchCaptured(0, step);
      device->launch(graph, held);
    }
    checkUntilItFails(fabric);
  });
  auto names = [](const std::string &what) {
    return testing::EndsWith(what + ": expected rank 1 to take part within 4 "
                                    "s, but did not");
  };
  // Whoever came first said so to the other.
  EXPECT_THAT(outcomes[0],
              testing::AnyOf(names("all_gather of bucket 'b' in step 6"),
                             names("reduce_scatter of bucket 'z' in step 6")));
  EXPECT_THAT(outcomes[1], StartsWith("E090 rank 1: rank "));
}

} // namespace
