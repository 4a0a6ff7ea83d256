//===- NcclFailureTest.cpp - What happens when NCCL or a rank fails -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "NcclHarness.h"

#include <gmock/gmock.h>

using namespace fsdp;
using namespace fsdp::test;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

class NcclFailure : public NcclTest {
protected:
  Communicator::Ticket gather(Communicator &communicator,
                              TransferLabel label = kGather, int members = 1) {
    Members all(members, {shard, full, sizeof(shard)});
    return communicator.start({label, all});
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

/// NCCL takes them for ranks of two machines by the same variable.
TEST_F(NcclFailure, HostsAreToldApartAsNcclTellsThem) {
  auto alone = std::make_shared<AlonePeers>(1, 3);
  alone->devicesAreShared = true;
  FabricOptions options;
  options.streams = std::make_shared<RecordingStreams>(0, "0000:1b:00.0");
  setenv("NCCL_HOSTID", "made-up", 1);
  // All leave what this one does.
  EXPECT_THAT(
      errorOf(ErrorId::DeviceFailed, [&] { makeNcclFabric(alone, options); }),
      HasSubstr("both on 0000:1b:00.0 of made-up"));
  unsetenv("NCCL_HOSTID");
}

TEST_F(NcclFailure, ACallThatFailsForWantOfMemorySaysSo) {
  connect(0, 2);
  auto communicator = world("dp");
  streams->take((size_t(1) << 30) - 4096);
  script->failing["ncclAllGather"] = nccl::Result::unhandledCudaError;
  EXPECT_THAT(errorOf(ErrorId::NcclFailed, [&] { gather(*communicator); }),
              HasSubstr("unhandled cuda error; only 4096 bytes of the device's "
                        "memory are unused"));
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
  EXPECT_TRUE(eventually([&] { return script->aborted == 2; }));
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
  EXPECT_TRUE(eventually([&] { return script->aborted == 1; }));
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
  communicator->wait(
      gather(*communicator, {CollectiveKind::all_gather, "root", 2}));
  streams->hold(streams->find("dp"));
  auto begin = std::chrono::steady_clock::now();
  communicator->wait(gather(*communicator));
  communicator->wait(
      gather(*communicator, {CollectiveKind::all_gather, "layers.1", 3}));
  ASSERT_TRUE(eventually([&] { return script->aborted == 1; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 400ms);
  EXPECT_EQ(errorOf(ErrorId::DeadlinePassed, [&] { fabric->check(); }),
            "rank 0: all_gather of bucket 'layers.0' in step 3: expected ranks "
            "2, 3 to take part within 0.4 s, but did not");
  streams->release(streams->find("dp"));
}

/// NCCL does not return from an abort before all that is queued on the
/// communicator is through, and that may wait for another communicator, whose
/// peers are gone, too. There is no order in which one after the other would
/// do.
TEST_F(NcclFailure, AllCommunicatorsOfAStepOfSingleCallsAreAborted) {
  for (const char *begins : {"gather", "reduce"}) {
    SetUp();
    connect(0, 2, 300ms);
    peers->absent = {1};
    auto gathers = world("gather"), reductions = world("reduce");
    // Of a step whose peer is gone all is queued.
    streams->hold(streams->find("gather"));
    streams->hold(streams->find("reduce"));
    alignas(16) float gradient[8] = {}, sum[4] = {};
    auto reduce = [&] {
      Member member{gradient, sum, 4, plan::DType::f32};
      reductions->wait(
          reductions->start({{CollectiveKind::reduce_scatter, "layers.0", 3},
                             {&member, 1},
                             plan::Reduction::sum}));
      streams->put(streams->compute(), "matmul");
    };
    if (begins == std::string("reduce"))
      reduce();
    for (int i = 0; i < 2; ++i) {
      gathers->wait(gather(*gathers));
      streams->put(streams->compute(), "matmul");
      reduce();
    }
    EXPECT_TRUE(eventually([&] { return script->aborted == 2; }))
        << script->aborting << " aborts were begun, beginning with " << begins;
    EXPECT_THAT(errorOf(ErrorId::DeadlinePassed, [&] { fabric->check(); }),
                HasSubstr(begins));
    streams->release(streams->find("gather"));
    streams->release(streams->find("reduce"));
  }
}

TEST_F(NcclFailure, LeavingATransferAbortsWhatItWaitsFor) {
  connect(0, 2);
  auto gathers = world("gather"), other = world("other");
  streams->hold(streams->find("gather"));
  streams->hold(streams->find("other"));
  other->wait(gather(*other));
  gather(*gathers);
  auto begin = std::chrono::steady_clock::now();
  gathers.reset();
  other.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_EQ(script->aborted, 2);
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
  EXPECT_TRUE(eventually([&] { return script->aborted == 1; }));
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
  EXPECT_TRUE(eventually([&] { return script->aborted == 1; }));
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

} // namespace
