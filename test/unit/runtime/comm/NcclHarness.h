//===- NcclHarness.h - One rank of NCCL, without a device -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_NCCLHARNESS_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_NCCLHARNESS_H

#include "AlonePeers.h"
#include "NcclOnStreams.h"
#include "runtime/comm/nccl/Nccl.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <thread>

namespace fsdp::test {

inline constexpr TransferLabel kGather = {plan::CollectiveKind::all_gather,
                                          "layers.0", 3};
inline constexpr TransferLabel kReduce = {plan::CollectiveKind::reduce_scatter,
                                          "layers.0", 3};
inline constexpr TransferLabel kAllReduce = {plan::CollectiveKind::all_reduce,
                                             "layers.0", 3};

/// What NCCL was asked for stands between the streams' other work.
class NcclTest : public testing::Test {
protected:
  void SetUp() override {
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    unsetenv("NCCL_GRAPH_REGISTER");
    unsetenv("FSDP_NCCL_REGISTER");
    unsetenv("FSDP_NCCL_BLOCKING");
    unsetenv("NCCL_HOSTID");
    script = &useFakeNccl(FSDP_FAKE_NCCL);
  }
  void TearDown() override {
    fabric.reset();
    SetUp();
  }

  /// This process plays `rank` of `worldSize`.
  void connect(int rank, int worldSize,
               std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    peers = std::make_shared<AlonePeers>(rank, worldSize, deadline);
    streams = std::make_shared<RecordingStreams>();
    playOn(*script, streams);
    FabricOptions options;
    options.worldSize = worldSize;
    options.streams = streams;
    options.note = [this](const std::string &text) {
      std::lock_guard lock(notesMutex);
      notes.push_back(text);
    };
    fabric = makeNcclFabric(peers, options);
  }

  static GroupRanks group(std::string name, int size, int base = 0,
                          int stride = 1,
                          plan::Stream stream = plan::Stream::gather) {
    GroupRanks ranks{std::move(name), {}, stream};
    for (int i = 0; i < size; ++i)
      ranks.ranks.push_back(base + i * stride);
    return ranks;
  }
  std::unique_ptr<Communicator> world(const char *name) {
    return fabric->createCommunicator(group(name, fabric->worldSize()));
  }

  /// Numbers of the streams' works that are called `what`.
  std::vector<size_t> works(const std::string &what) const {
    std::vector<size_t> numbers;
    std::vector<RecordingStreams::Work> all = streams->all();
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].what == what)
        numbers.push_back(i);
    return numbers;
  }

  /// What `call` throws; "nothing" if it does not.
  template <typename Call>
  static std::string errorOf(ErrorId id, Call call) {
    try {
      call();
    } catch (const Error &error) {
      EXPECT_EQ(getErrorInfo(error.id()).id, getErrorInfo(id).id)
          << error.what();
      return error.what();
    }
    return "nothing";
  }

  /// Waits until `holds`, for things that other threads do.
  template <typename Condition>
  static bool eventually(Condition holds) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end)
        return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  NcclScript *script = nullptr;
  std::shared_ptr<AlonePeers> peers;
  std::shared_ptr<RecordingStreams> streams;
  std::mutex notesMutex;
  std::vector<std::string> notes;
  std::unique_ptr<Fabric> fabric;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_NCCLHARNESS_H
