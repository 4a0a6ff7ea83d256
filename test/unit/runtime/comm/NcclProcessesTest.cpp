//===- NcclProcessesTest.cpp - Ranks of NCCL that meet in a store ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "NcclProcesses.h"
#include "Harness.h"
#include "NcclHarness.h"
#include "runtime/exec/CaptureAgreement.h"

#include <gmock/gmock.h>

#include <cstring>

using namespace fsdp;
using namespace fsdp::test;
using namespace std::chrono_literals;

namespace {

GroupRanks both{"dp", {0, 1}};

TEST(NcclProcesses, ConnectAndLeave) {
  auto outcomes = runRanks(processes(2, 20s), [](Fabric &fabric) {
    auto communicator = fabric.createCommunicator(both);
    float shard[4] = {1, 2, 3, 4}, full[8];
    Member member{shard, full, sizeof(shard)};
    communicator->wait(communicator->start({kGather, {&member, 1}}));
    float peer;
    auto *bytes = reinterpret_cast<std::byte *>(&peer);
    std::memcpy(bytes, &shard[3], sizeof(peer));
    for (size_t i = 0; i < sizeof(peer); ++i)
      bytes[i] = peerByte(bytes[i], 0, 1);
    require(full[4 * fabric.rank() + 3] == 4 &&
                std::memcmp(&full[4 * (1 - fabric.rank()) + 3], &peer,
                            sizeof(peer)) == 0,
            "the ranks' data are not at their places");
  });
  EXPECT_THAT(outcomes, testing::Each(""));
}

TEST(NcclProcesses, HostMemoryIsMovedBesideNccl) {
  auto outcomes = runRanks(processes(2, 20s), [](Fabric &fabric) {
    require(fabric.streams() == device, "the fabric has other streams");
    auto communicator = fabric.createHostCommunicator(both);
    float shard = static_cast<float>(fabric.rank() + 1), full[2] = {};
    Member member{&shard, full, sizeof(shard)};
    communicator->wait(communicator->start({kGather, {&member, 1}}));
    require(full[0] == 1 && full[1] == 2, "the other rank's value is missing");
  });
  EXPECT_THAT(outcomes, testing::Each(""));
}

TEST(NcclProcesses, RankThatNeverComesIsNamed) {
  auto outcomes = runRanks(processes(2, 2s), [](Fabric &fabric) {
    auto communicator = fabric.createCommunicator(both);
    if (fabric.rank() == 1) {
      std::this_thread::sleep_for(6s); // in a kernel, say
      return;
    }
    float shard[4] = {}, full[8];
    Member member{shard, full, sizeof(shard)};
    // The device is held up by the peer.
    device->hold(device->find("dp"));
    communicator->wait(communicator->start({kGather, {&member, 1}}));
    auto begin = std::chrono::steady_clock::now();
    try {
      while (std::chrono::steady_clock::now() - begin < 10s) {
        fabric.check();
        std::this_thread::sleep_for(10ms);
      }
    } catch (const Error &) {
      require(std::chrono::steady_clock::now() - begin < 5s,
              "the error came late");
      device->release(device->find("dp"));
      throw;
    }
  });
  EXPECT_EQ(outcomes[0],
            "E091 rank 0: all_gather of bucket 'layers.0' in step 3: expected "
            "rank 1 to take part within 2 s, but did not");
}

/// One rank of three cannot capture the program: none runs it as a graph, all
/// know why, and their transfers meet as before.
TEST(NcclProcesses, AllRunAGraphOrNone) {
  auto outcomes = runRanks(processes(3, 20s), [](Fabric &fabric) {
    auto communicator = fabric.createCommunicator({"dp", {0, 1, 2}});
    float shard[4] = {}, full[12];
    Member member{shard, full, sizeof(shard)};
    auto start = [&] { return communicator->start({kGather, {&member, 1}}); };
    communicator->wait(start());
    for (std::string program : {"train/step", "eval/step"}) {
      std::string own;
      try {
        device->beginCapture();
        auto ticket = start();
        // It leaves work on the other stream that nothing waits for.
        if (fabric.rank() != 1 || program == "eval/step")
          communicator->wait(ticket);
        device->endCapture();
      } catch (const Error &error) {
        own = error.what();
      }
      std::string reason = agreeOnCapture(fabric, program, own);
      if (program == "eval/step") {
        require(reason.empty(), "not captured: " + reason);
        require(communicator->keepCaptured() == 0, "another graph was kept");
        communicator->launchCaptured(0, 4);
        continue;
      }
      require(own.empty() == (fabric.rank() != 1), "the capture: " + own);
      require(reason == "rank 1: cudaStreamEndCapture failed: capturing stream "
                        "has unjoined work on stream 'dp'",
              "the reason: " + reason);
      communicator->abandon();
      communicator->wait(start());
    }
    fabric.check();
  });
  EXPECT_THAT(outcomes, testing::Each(""));
}

TEST(NcclProcesses, AbortReachesThePeers) {
  auto outcomes = runRanks(processes(2, 20s), [](Fabric &fabric) {
    auto communicator = fabric.createCommunicator(both);
    if (fabric.rank() == 1) {
      fabric.abort("the disk is full");
      return;
    }
    auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < 10s) {
      fabric.check();
      std::this_thread::sleep_for(10ms);
    }
  });
  EXPECT_EQ(outcomes[1], "");
  EXPECT_EQ(outcomes[0], "E090 rank 0: rank 1 failed: the disk is full");
}

} // namespace
