//===- DeviceCopiesTest.cpp - Transfers within one device -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/one_device/DeviceCopies.h"

#include "Conformance.h"
#include "SimulatedStreams.h"
#include "runtime/comm/local/Local.h"
#include "runtime/comm/one_device/DeviceFabric.h"
#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using namespace std::chrono_literals;
using plan::DType;
using plan::Reduction;
using testing::HasSubstr;

namespace {

/// Ranks on one simulated device, all used by one thread.
struct Ranks {
  explicit Ranks(int count, bool isLate = true,
                 std::chrono::milliseconds deadline = 10s)
      : device(std::make_shared<SimulatedDevice>(isLate)),
        shared(std::make_shared<SharedDevice>(count, deadline)) {
    GroupRanks group{"group", std::vector<int>(count)};
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
    for (int rank = 0; rank < count; ++rank)
      streams.push_back(std::make_shared<SimulatedStreams>(device));
    auto common = std::make_shared<DeviceCopiesGroup>(
        shared, streams[0], makeSimulatedReduce(device), group);
    for (int rank = 0; rank < count; ++rank)
      copies.push_back(
          std::make_unique<DeviceCopies>(common, streams[rank], rank));
  }

  std::shared_ptr<SimulatedDevice> device;
  std::shared_ptr<SharedDevice> shared;
  std::vector<std::shared_ptr<SimulatedStreams>> streams;
  std::vector<std::unique_ptr<DeviceCopies>> copies;
};

/// Where rank r's shard is {r + 1, r + 1}.
struct Gather {
  explicit Gather(Ranks &ranks) : ranks(ranks) {
    size_t count = ranks.copies.size();
    shards.resize(count, std::vector<float>(2));
    fulls.resize(count, std::vector<float>(2 * count));
  }
  /// The shards are computed as late as possible.
  void compute(size_t rank, float value) {
    ranks.streams[rank]->put(
        [this, rank, value] { shards[rank] = {value, value}; });
  }
  Communicator::Ticket start(size_t rank) {
    Member member{shards[rank].data(), fulls[rank].data(), 2 * sizeof(float)};
    return ranks.copies[rank]->start(
        {{CollectiveKind::all_gather, "b", 0}, {&member, 1}});
  }

  Ranks &ranks;
  std::vector<std::vector<float>> shards, fulls;
};

TEST(DeviceCopies, ATransferComesAfterWhatEachRankHadIssued) {
  Ranks ranks(3);
  Gather gather(ranks);
  std::vector<Communicator::Ticket> tickets;
  for (size_t rank = 0; rank < 3; ++rank) {
    gather.compute(rank, static_cast<float>(rank + 1));
    tickets.push_back(gather.start(rank));
  }
  for (size_t rank = 0; rank < 3; ++rank)
    ranks.copies[rank]->wait(tickets[rank]);
  // Of one rank alone: the others' shards are computed because it needs them.
  ranks.streams[1]->finish();
  EXPECT_EQ(gather.fulls[1], (std::vector<float>{1, 1, 2, 2, 3, 3}));
}

TEST(DeviceCopies, ARankMayOverwriteItsShardBehindItsWait) {
  Ranks ranks(3);
  Gather gather(ranks);
  std::vector<Communicator::Ticket> tickets;
  for (size_t rank = 0; rank < 3; ++rank) {
    gather.compute(rank, static_cast<float>(rank + 1));
    tickets.push_back(gather.start(rank));
  }
  for (size_t rank = 0; rank < 3; ++rank) {
    ranks.copies[rank]->wait(tickets[rank]);
    gather.compute(rank, 100);
  }
  ranks.streams[0]->finish();
  EXPECT_EQ(gather.shards[0][0], 100);
  ranks.streams[2]->finish();
  for (size_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(gather.fulls[rank], (std::vector<float>{1, 1, 2, 2, 3, 3}));
}

TEST(DeviceCopies, TransfersOfOneCommunicatorKeepTheirOrderAndReuseEvents) {
  Ranks ranks(2);
  Gather gather(ranks);
  for (int round = 0; round < 50; ++round) {
    std::vector<Communicator::Ticket> tickets;
    for (size_t rank = 0; rank < 2; ++rank) {
      gather.compute(rank, static_cast<float>(round));
      tickets.push_back(gather.start(rank));
    }
    for (size_t rank = 0; rank < 2; ++rank)
      ranks.copies[rank]->wait(tickets[rank]);
  }
  for (auto &stream : ranks.streams)
    stream->finish();
  EXPECT_EQ(gather.fulls[0], (std::vector<float>{49, 49, 49, 49}));
  EXPECT_EQ(ranks.device->eventCount(), 3u);
}

TEST(DeviceCopies, Reductions) {
  Ranks ranks(3);
  std::vector<std::vector<float>> full(3, std::vector<float>(6)), shard(3),
      all(3);
  std::vector<Communicator::Ticket> scattered, reduced;
  for (size_t rank = 0; rank < 3; ++rank) {
    shard[rank].resize(2);
    all[rank] = {static_cast<float>(rank), 1};
    ranks.streams[rank]->put([&, rank] {
      for (size_t i = 0; i < 6; ++i)
        full[rank][i] = static_cast<float>(10 * rank + i);
    });
    Member member{full[rank].data(), shard[rank].data(), 2, DType::f32};
    scattered.push_back(
        ranks.copies[rank]->start({{CollectiveKind::reduce_scatter, "b", 0},
                                   {&member, 1},
                                   Reduction::sum}));
    Member both{all[rank].data(), all[rank].data(), 2, DType::f32};
    reduced.push_back(ranks.copies[rank]->start(
        {{CollectiveKind::all_reduce, "b", 0}, {&both, 1}, Reduction::avg}));
  }
  for (size_t rank = 0; rank < 3; ++rank) {
    ranks.copies[rank]->wait(scattered[rank]);
    ranks.copies[rank]->wait(reduced[rank]);
  }
  ranks.streams[2]->finish();
  EXPECT_EQ(shard[0], (std::vector<float>{30, 33}));
  EXPECT_EQ(shard[1], (std::vector<float>{36, 39}));
  EXPECT_EQ(shard[2], (std::vector<float>{42, 45}));
  for (size_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(all[rank], (std::vector<float>{1, 1}));
}

TEST(DeviceCopies, RanksThatStartDifferentThingsAreToldApart) {
  Ranks ranks(2);
  float data[4] = {};
  Member gather{data, data, 4};
  Member reduce{data, data, 1, DType::f32};
  ranks.copies[0]->start({{CollectiveKind::all_gather, "b", 3}, {&gather, 1}});
  try {
    ranks.copies[1]->start(
        {{CollectiveKind::all_reduce, "b", 3}, {&reduce, 1}, Reduction::sum});
    FAIL() << "did not fail";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::CollectiveMismatch);
    EXPECT_THAT(error.what(),
                HasSubstr("rank 1: all_reduce of bucket 'b' in step 3"));
  }
}

TEST(DeviceCopies, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  Ranks ranks(3, /*isLate=*/true, 50ms);
  Gather gather(ranks);
  auto ticket = gather.start(0);
  gather.start(2);
  try {
    ranks.copies[0]->wait(ticket);
    FAIL() << "did not fail";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::DeadlinePassed);
    EXPECT_THAT(error.what(), HasSubstr("expected rank 1 to start it"));
  }
}

TEST(DeviceCopies, WhatWasAbandonedIsForgotten) {
  Ranks ranks(2);
  Gather gather(ranks);
  gather.start(0);
  gather.start(0);
  gather.start(1);
  for (auto &each : ranks.copies)
    each->abandon();
  std::vector<Communicator::Ticket> tickets;
  for (size_t rank = 0; rank < 2; ++rank) {
    gather.compute(rank, 7);
    tickets.push_back(gather.start(rank));
  }
  for (size_t rank = 0; rank < 2; ++rank)
    ranks.copies[rank]->wait(tickets[rank]);
  ranks.streams[0]->finish();
  EXPECT_EQ(gather.fulls[0], (std::vector<float>{7, 7, 7, 7}));
}

//===----------------------------------------------------------------------===//
// The conformance suite, on threads
//===----------------------------------------------------------------------===//

/// Waits for the device, too.
class Finished final : public Communicator {
public:
  Finished(std::unique_ptr<Communicator> inner, SimulatedStreams &streams)
      : inner(std::move(inner)), streams(streams) {}
  int rank() const override { return inner->rank(); }
  int size() const override { return inner->size(); }
  Ticket start(const Transfer &transfer) override {
    return inner->start(transfer);
  }
  void wait(Ticket ticket) override {
    inner->wait(ticket);
    streams.finish();
  }

private:
  std::unique_ptr<Communicator> inner;
  SimulatedStreams &streams;
};

class FinishedFabric final : public Fabric {
public:
  FinishedFabric(Fabric &inner, SimulatedStreams &streams)
      : Fabric(inner.meeting()), inner(inner), own(streams) {}
  std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) override {
    return std::make_unique<Finished>(inner.createCommunicator(group), own);
  }
  std::shared_ptr<Streams> streams() const override { return inner.streams(); }
  void endTransfers(const std::string &reason) noexcept override {
    inner.endTransfers(reason);
  }

private:
  Fabric &inner;
  SimulatedStreams &own;
};

class OnOneDevice
    : public testing::TestWithParam<std::tuple<Check, int, bool>> {};

TEST_P(OnOneDevice, Holds) {
  auto [check, world, isLate] = GetParam();
  auto device = std::make_shared<SimulatedDevice>(isLate);
  auto hosts = makeLocalFabrics(world, 60s);
  std::vector<std::string> outcomes(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank, check = check] {
      try {
        auto streams = std::make_shared<SimulatedStreams>(device);
        DeviceFabric fabric(*hosts[rank], streams, makeSimulatedReduce(device),
                            60s);
        FinishedFabric finished(fabric, *streams);
        check.run(finished);
        // Nobody ends before all are done.
        fabric.exchange("end", "");
      } catch (const std::exception &error) {
        outcomes[rank] = error.what();
        hosts[rank]->abort(error.what());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int rank = 0; rank < world; ++rank)
    EXPECT_EQ(outcomes[rank], "") << "rank " << rank;
}

std::string
nameOf(const testing::TestParamInfo<std::tuple<Check, int, bool>> &info) {
  auto [check, world, isLate] = info.param;
  return std::string(check.name) + "_" + std::to_string(world) +
         (isLate ? "_late" : "_atOnce");
}

INSTANTIATE_TEST_SUITE_P(
    , OnOneDevice,
    testing::Combine(testing::ValuesIn(conformanceChecks()),
                     testing::Values(1, 2, 3), testing::Bool()),
    nameOf);

} // namespace
