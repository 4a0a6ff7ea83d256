//===- GraphWatchTest.cpp - A graph on a GPU whose transfer hangs ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that spin stand for NCCL's, whose functions only take notes. Skipped,
// with a word, where there is no GPU.
//
//===----------------------------------------------------------------------===//

#include "AlonePeers.h"
#include "FakeNccl.h"
#include "runtime/comm/nccl/Nccl.h"
#include "runtime/cuda/Streams.h"
#include "test/unit/runtime/cuda/NeedsGpu.h"

#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using namespace std::chrono_literals;

namespace {

/// Clock cycles: a moment, and between two seconds and ten on any GPU.
constexpr int64_t kShort = 10'000, kLong = 5'000'000'000;
constexpr auto kDeadline = 600ms;

class GraphWatch : public testing::Test {
protected:
  void SetUp() override {
    FSDP_NEEDS_GPU();
    streams = makeCudaStreams(0);
    streams->use();
    script = &useFakeNccl(FSDP_FAKE_NCCL);
    script->observer = [this](const NcclCall &call) {
      c10::cuda::CUDAStreamGuard guard(
          c10::cuda::getStreamFromExternal(call.stream, 0));
      at::cuda::sleep(transfer);
    };
    peers = std::make_shared<AlonePeers>(0, 2, kDeadline);
    peers->absent = {1};
    FabricOptions options;
    options.worldSize = 2;
    options.streams = streams;
    fabric = makeNcclFabric(peers, options);
    gathers = fabric->createCommunicator({"gathers", {0, 1}});
    reductions = fabric->createCommunicator({"reductions", {0, 1}});
  }
  void TearDown() override {
    if (!streams)
      return;
    cudaDeviceSynchronize();
    gathers.reset();
    reductions.reset();
    fabric.reset();
    script->observer = nullptr;
  }

  struct Graph {
    at::cuda::CUDAGraph graph;
    uint64_t gathers = 0, reductions = 0;
  };

  /// Two gathers that overlap with two reductions, behind kernels. The second
  /// reduction, and the kernel in front of it, take so many cycles.
  void capture(Graph &into, int64_t kernel, int64_t reduction) {
    auto compute = c10::cuda::getStreamFromExternal(streams->compute(), 0);
    c10::cuda::CUDAStreamGuard guard(compute);
    auto gather = [&](const char *bucket) {
      Member member{shard, full, sizeof(shard)};
      return gathers->start(
          {{CollectiveKind::all_gather, bucket, 0}, {&member, 1}});
    };
    auto reduce = [&](const char *bucket) {
      Member member{full, shard, 4, plan::DType::f32};
      return reductions->start({{CollectiveKind::reduce_scatter, bucket, 0},
                                {&member, 1},
                                plan::Reduction::sum});
    };
    transfer = kShort;
    into.graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    at::cuda::sleep(kShort);
    auto gathered = gather("a");
    auto reduced = reduce("z");
    gathers->wait(gathered);
    reductions->wait(reduced);
    gathered = gather("b");
    at::cuda::sleep(kernel);
    transfer = reduction;
    reduced = reduce("y");
    gathers->wait(gathered);
    reductions->wait(reduced);
    into.graph.capture_end();
    into.gathers = gathers->keepCaptured();
    into.reductions = reductions->keepCaptured();
  }

  void launch(Graph &graph, uint64_t step) {
    c10::cuda::CUDAStreamGuard guard(
        c10::cuda::getStreamFromExternal(streams->compute(), 0));
    gathers->launchCaptured(graph.gathers, step);
    reductions->launchCaptured(graph.reductions, step);
    graph.graph.replay();
  }

  /// Waits for the device as a rank does; what the fabric finds meanwhile.
  std::string finish() {
    std::string error;
    while (cudaStreamQuery(streams->compute()) == cudaErrorNotReady) {
      try {
        fabric->check();
      } catch (const Error &found) {
        error = found.what();
      }
      std::this_thread::sleep_for(2ms);
    }
    return error;
  }

  std::shared_ptr<Streams> streams;
  NcclScript *script = nullptr;
  std::shared_ptr<AlonePeers> peers;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Communicator> gathers, reductions;
  int64_t transfer = kShort;
  // The library that takes notes moves the host's memory.
  alignas(16) float shard[4] = {}, full[8] = {};
};

TEST_F(GraphWatch, ATransferThatSpinsIsNamed) {
  Graph good, hangs;
  capture(good, kShort, kShort);
  capture(hangs, kShort, kLong);
  for (uint64_t step = 3; step < 8; ++step)
    launch(good, step);
  launch(hangs, 8);
  EXPECT_EQ(finish(),
            "rank 0: reduce_scatter of bucket 'y' in step 8: expected "
            "rank 1 to take part within 0.6 s, but did not");
  EXPECT_THROW(launch(good, 9), Error);
}

TEST_F(GraphWatch, AKernelThatSpinsIsNotBlamed) {
  Graph slow;
  capture(slow, kLong, kShort);
  launch(slow, 3);
  EXPECT_EQ(finish(), "");
  launch(slow, 4);
  EXPECT_EQ(finish(), "");
  EXPECT_EQ(peers->failure(), std::nullopt);
}

TEST_F(GraphWatch, NothingIsFoundInAnyNumberOfSteps) {
  Graph good;
  capture(good, kShort, kShort);
  auto begin = std::chrono::steady_clock::now();
  for (uint64_t step = 3; std::chrono::steady_clock::now() - begin < 2s;
       ++step) {
    launch(good, step);
    if (step % 8 == 0) {
      EXPECT_EQ(finish(), "") << step;
    }
  }
  EXPECT_EQ(finish(), "");
  EXPECT_EQ(peers->failure(), std::nullopt);
}

} // namespace
