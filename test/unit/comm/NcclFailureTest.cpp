//===- NcclFailureTest.cpp - What happens when NCCL or a rank fails -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Harness.h"
#include "NcclHarness.h"

#include <gmock/gmock.h>

using namespace fsdp;
using namespace fsdp::test;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

constexpr TransferLabel kGather = {"all_gather", "layers.0", 3};

class NcclFailure : public NcclTest {
protected:
  Communicator::Ticket gather(Communicator &communicator,
                              TransferLabel label = kGather, int members = 1) {
    std::vector<GatherMember> all(members, {shard, full, sizeof(shard)});
    return communicator.startAllGather(all, label);
  }

  alignas(16) float shard[4] = {};
  alignas(16) float full[64] = {};
};

TEST_F(NcclFailure, LibraryThatIsNotThere) {
  setenv("FSDP_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
  EXPECT_THAT(errorOf(ErrorId::NcclUnusable, [&] { connect(0, 2); }),
              AllOf(StartsWith("expected to load NCCL from "
                               "'/nowhere/libnccl.so.2', which "
                               "FSDP_NCCL_LIBRARY names, found: "),
                    HasSubstr("No such file")));
}

TEST_F(NcclFailure, LibraryOfSomethingElse) {
  setenv("FSDP_NCCL_LIBRARY", "libm.so.6", 1);
  EXPECT_EQ(errorOf(ErrorId::NcclUnusable, [&] { connect(0, 2); }),
            "expected NCCL 2.18.1 or newer in 'libm.so.6', which has no "
            "function ncclGetVersion");
}

TEST_F(NcclFailure, LibraryThatIsTooOld) {
  script->version = nccl::version(2, 17, 1);
  EXPECT_THAT(errorOf(ErrorId::NcclUnusable, [&] { connect(0, 2); }),
              AllOf(HasSubstr("expected NCCL 2.18.1 or newer"),
                    HasSubstr("found version 2.17.1")));
}

TEST_F(NcclFailure, TwoRanksOnOneDevice) {
  auto alone = std::make_shared<AlonePeers>(1, 3);
  alone->devicesAreShared = true;
  FabricOptions options;
  options.streams = std::make_shared<RecordingStreams>(0, "0000:1b:00.0");
  EXPECT_THAT(
      errorOf(ErrorId::DeviceFailed, [&] { makeNcclFabric(alone, options); }),
      AllOf(StartsWith("rank 1: expected a GPU for each rank, found "
                       "ranks 0 and 1 both on 0000:1b:00.0 of "),
            HasSubstr("--backend=local")));
}

TEST_F(NcclFailure, ArtifactForCpus) {
  EXPECT_THAT(errorOf(ErrorId::BadUsage, [] { connectNcclFabric({}); }),
              HasSubstr("compiled for CPUs"));
}

TEST_F(NcclFailure, ConnectingThatNeverEnds) {
  script->initEnds = false;
  connect(1, 3, 300ms);
  EXPECT_EQ(errorOf(ErrorId::DeadlinePassed, [&] { world("dp/gather"); }),
            "rank 1: connecting group 'dp/gather': expected "
            "ncclCommInitRankConfig to come through within 0.3 s on ranks 0, "
            "1, 2, but it did not");
  EXPECT_EQ(script->aborted, 1);
  EXPECT_EQ(script->alive, 0);
  EXPECT_EQ(streams->liveStreams(), 1u);
  EXPECT_THAT(*peers->failure(), StartsWith("rank 1: connecting group"));
}

TEST_F(NcclFailure, ConnectingThatFails) {
  script->failing["ncclCommInitRankConfig"] = nccl::Result::systemError;
  script->lastError = "Bootstrap : no socket interface found\n";
  connect(0, 2);
  EXPECT_EQ(errorOf(ErrorId::NcclFailed, [&] { world("dp"); }),
            "rank 0: connecting group 'dp': ncclCommInitRankConfig failed: "
            "unhandled system error: Bootstrap : no socket interface found");
  script->failing["ncclGetUniqueId"] = nccl::Result::internalError;
  script->lastError.clear();
  connect(0, 2);
  EXPECT_EQ(errorOf(ErrorId::NcclFailed, [&] { world("dp"); }),
            "rank 0: connecting group 'dp': ncclGetUniqueId failed: internal "
            "error");
}

TEST_F(NcclFailure, CallThatFails) {
  connect(1, 2);
  auto communicator = world("dp"), other = world("other");
  script->failing["ncclAllGather"] = nccl::Result::unhandledCudaError;
  script->lastError = "Cuda failure 700";
  const std::string text =
      "rank 1: all_gather of bucket 'layers.0' in step 3: ncclAllGather "
      "failed: unhandled cuda error: Cuda failure 700";
  EXPECT_EQ(errorOf(ErrorId::NcclFailed, [&] { gather(*communicator); }), text);
  EXPECT_EQ(*peers->failure(), text);
  // All of the rank's communicators end; whatever comes next says why.
  EXPECT_EQ(script->aborted, 2);
  EXPECT_EQ(errorOf(ErrorId::NcclFailed, [&] { gather(*other); }), text);
  EXPECT_EQ(errorOf(ErrorId::NcclFailed, [&] { fabric->check(); }), text);
}

TEST_F(NcclFailure, CallOfAGroupThatFails) {
  for (const char *call : {"ncclAllGather", "ncclGroupStart", "ncclGroupEnd"}) {
    SetUp();
    connect(0, 2);
    auto communicator = world("dp");
    script->failing[call] = nccl::Result::internalError;
    EXPECT_EQ(errorOf(ErrorId::NcclFailed,
                      [&] { gather(*communicator, kGather, 3); }),
              "rank 0: all_gather of bucket 'layers.0' in step 3: " +
                  std::string(call) + " failed: internal error");
    // The thread is in no group any more.
    script->calls.clear();
    connect(0, 2);
    auto next = world("dp");
    next->wait(gather(*next));
    ASSERT_EQ(script->calls.size(), 1u) << call;
    EXPECT_EQ(script->calls[0].group, 0);
  }
}

TEST_F(NcclFailure, CallThatNeverComesThrough) {
  connect(0, 2, 300ms);
  auto communicator = world("dp");
  script->callPolls = 1 << 30;
  EXPECT_THAT(errorOf(ErrorId::DeadlinePassed, [&] { gather(*communicator); }),
              AllOf(StartsWith("rank 0: all_gather of bucket 'layers.0' in "
                               "step 3: expected "),
                    HasSubstr("within 0.3 s"), HasSubstr("did not")));
  EXPECT_EQ(script->aborted, 1);
}

TEST_F(NcclFailure, ErrorWhileNobodyWaits) {
  connect(1, 2);
  auto communicator = world("dp");
  streams->hold(streams->find("dp"));
  auto ticket = gather(*communicator);
  communicator->wait(ticket);
  fabric->check();
  {
    std::lock_guard lock(script->mutex);
    script->lastError = "connection closed by remote peer";
    script->asyncError = nccl::Result::remoteError;
  }
  ASSERT_TRUE(eventually([&] { return peers->failure().has_value(); }));
  ASSERT_TRUE(eventually([&] { return script->aborted == 1; }));
  EXPECT_EQ(errorOf(ErrorId::NcclFailed, [&] { fabric->check(); }),
            "rank 1: all_gather of bucket 'layers.0' in step 3: NCCL failed: "
            "remote process exited or there was a network error: connection "
            "closed by remote peer");
  streams->release(streams->find("dp"));
}

TEST_F(NcclFailure, TransferThatNeverEndsNamesWhoIsAbsent) {
  connect(0, 4, 400ms);
  peers->absent = {2, 3};
  auto communicator = world("dp");
  communicator->wait(gather(*communicator, {"all_gather", "root", 2}));
  streams->hold(streams->find("dp"));
  auto begin = std::chrono::steady_clock::now();
  communicator->wait(gather(*communicator));
  communicator->wait(gather(*communicator, {"all_gather", "layers.1", 3}));
  ASSERT_TRUE(eventually([&] { return script->aborted == 1; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 400ms);
  EXPECT_EQ(errorOf(ErrorId::DeadlinePassed, [&] { fabric->check(); }),
            "rank 0: all_gather of bucket 'layers.0' in step 3: expected ranks "
            "2, 3 to take part within 0.4 s, but did not");
  streams->release(streams->find("dp"));
}

TEST_F(NcclFailure, TimeBeforeTheTransferMayBeginDoesNotCount) {
  connect(0, 2, 300ms);
  auto communicator = world("dp");
  // A kernel in front of it takes longer than the deadline.
  streams->hold(streams->compute());
  streams->put(streams->compute(), "matmul");
  auto ticket = gather(*communicator);
  std::this_thread::sleep_for(700ms);
  fabric->check();
  streams->release(streams->compute());
  communicator->wait(ticket);
  fabric->check();
  EXPECT_EQ(script->aborted, 0);
}

TEST_F(NcclFailure, AnotherRankThatFails) {
  connect(0, 2);
  auto communicator = world("dp");
  auto ticket = gather(*communicator);
  peers->failElsewhere("rank 1 failed: the disk is full");
  EXPECT_EQ(script->aborted, 1);
  const std::string text = "rank 0: all_gather of bucket 'layers.0' in step 3: "
                           "rank 1 failed: the disk is full";
  EXPECT_EQ(errorOf(ErrorId::PeerFailed, [&] { communicator->wait(ticket); }),
            text);
  EXPECT_EQ(errorOf(ErrorId::PeerFailed, [&] { gather(*communicator); }), text);
  EXPECT_EQ(errorOf(ErrorId::PeerFailed, [&] { fabric->check(); }),
            "rank 0: rank 1 failed: the disk is full");
}

TEST_F(NcclFailure, AbortEndsTheTransfersOfThisRank) {
  connect(1, 2);
  auto communicator = world("dp");
  auto ticket = gather(*communicator);
  communicator->wait(ticket);
  fabric->abort("the disk is full");
  EXPECT_EQ(*peers->failure(), "rank 1 failed: the disk is full");
  EXPECT_EQ(script->aborted, 1);
}

TEST_F(NcclFailure, LeavingWithATransferThatNobodyWaitedFor) {
  connect(1, 2);
  {
    auto communicator = world("dp");
    gather(*communicator);
  }
  EXPECT_EQ(*peers->failure(), "rank 1: all_gather of bucket 'layers.0' in "
                               "step 3: ended before it was complete");
  EXPECT_EQ(script->aborted, 1);
  EXPECT_EQ(script->alive, 0);
  EXPECT_EQ(streams->liveEvents(), 0u);
}

TEST_F(NcclFailure, LeavingWaitsForTheDevice) {
  connect(0, 2);
  auto communicator = world("dp");
  streams->hold(streams->find("dp"));
  communicator->wait(gather(*communicator));
  std::thread device([&] {
    std::this_thread::sleep_for(200ms);
    streams->release(streams->find("dp"));
  });
  auto begin = std::chrono::steady_clock::now();
  communicator.reset();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 150ms);
  EXPECT_EQ(script->destroyed, 1);
  EXPECT_EQ(script->aborted, 0);
  device.join();
}

TEST_F(NcclFailure, RanksMustAskForRegistrationAlike) {
  // What this rank leaves under the key is all that is said of the others.
  class Other final : public Peers {
  public:
    int rank() const override { return 0; }
    int worldSize() const override { return 2; }
    std::chrono::milliseconds deadline() const override { return 1s; }
    std::vector<std::string> gather(const std::string &key,
                                    const std::string &value,
                                    const std::vector<int> &, ErrorId,
                                    const std::string &) override {
      return {value, key == "exchange/arena/" ? "none" : "elsewhere"};
    }
    std::vector<std::optional<std::string>>
    survey(const std::string &, const std::string &, const std::vector<int> &,
           std::chrono::milliseconds) noexcept override {
      return {};
    }
    std::string publish(const std::string &reason) override { return reason; }
    std::optional<std::string> failure() override { return std::nullopt; }
    int add(std::function<void()>) override { return 0; }
    void remove(int) override {}
    void publishStop(uint64_t) override {}
    std::optional<uint64_t> stopAfter() const noexcept override {
      return std::nullopt;
    }
  };
  setenv("FSDP_NCCL_REGISTER", "1", 1);
  FabricOptions options;
  options.streams = std::make_shared<RecordingStreams>();
  auto fabric = makeNcclFabric(std::make_shared<Other>(), options);
  EXPECT_THAT(errorOf(ErrorId::CollectiveMismatch,
                      [&] { fabric->allocateArena(4096); }),
              HasSubstr("found 4096 here and none on rank 1"));
}

//===----------------------------------------------------------------------===//
// Processes that meet in a store, as in a run
//===----------------------------------------------------------------------===//

/// Of this process's rank.
std::shared_ptr<RecordingStreams> device;

RankSetup processes(int worldSize, std::chrono::milliseconds deadline) {
  RankSetup setup{"nccl", worldSize, deadline};
  setup.connect = [](const FabricOptions &given) {
    useFakeNccl(FSDP_FAKE_NCCL);
    FabricOptions options = given;
    const char *rank = std::getenv("RANK");
    device = std::make_shared<RecordingStreams>(0, rank);
    options.streams = device;
    return connectNcclFabric(options);
  };
  return setup;
}

GroupRanks both{"dp", {0, 1}};

TEST(NcclProcesses, ConnectAndLeave) {
  auto outcomes = runRanks(processes(2, 20s), [](Fabric &fabric) {
    auto communicator = fabric.createCommunicator(both);
    float shard[4] = {1, 2, 3, 4}, full[8];
    GatherMember member{shard, full, sizeof(shard)};
    communicator->wait(communicator->startAllGather({&member, 1}, kGather));
    require(full[7] == 4, "nothing was gathered");
  });
  EXPECT_THAT(outcomes, testing::Each(""));
}

TEST(NcclProcesses, HostMemoryIsMovedBesideNccl) {
  auto outcomes = runRanks(processes(2, 20s), [](Fabric &fabric) {
    require(fabric.streams() == device, "the fabric has other streams");
    auto communicator = fabric.createHostCommunicator(both);
    float shard = static_cast<float>(fabric.rank() + 1), full[2] = {};
    GatherMember member{&shard, full, sizeof(shard)};
    communicator->wait(communicator->startAllGather({&member, 1}, kGather));
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
    GatherMember member{shard, full, sizeof(shard)};
    // The device is held up by the peer.
    device->hold(device->find("dp"));
    communicator->wait(communicator->startAllGather({&member, 1}, kGather));
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
