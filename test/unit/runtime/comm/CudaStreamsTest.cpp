//===- CudaStreamsTest.cpp - Streams of a real device ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Streams.h"
#include "support/Error.h"
#include "test/unit/runtime/cuda/NeedsGpu.h"

#include <c10/util/Half.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

using namespace fsdp;
using namespace std::chrono_literals;

namespace {

TEST(CudaDevices, OneThatIsNotThereIsRefused) {
  try {
    makeCudaStreams(countCudaDevices() + 3);
    FAIL() << "a device that is not there was taken";
  } catch (const Error &error) {
    EXPECT_EQ(getErrorInfo(error.id()).id, "E110");
    EXPECT_THAT(error.what(), testing::HasSubstr("expected a CUDA device"));
  }
}

class CudaStreams : public testing::Test {
protected:
  void SetUp() override {
    FSDP_NEEDS_GPU();
    streams = makeCudaStreams(0);
    streams->use();
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void **>(&memory), kBytes),
              cudaSuccess);
    ASSERT_EQ(cudaMemset(memory, 0, kBytes), cudaSuccess);
  }
  void TearDown() override { cudaFree(memory); }

  template <typename T>
  std::vector<T> read(size_t count, size_t offset = 0) {
    std::vector<T> values(count);
    cudaDeviceSynchronize();
    cudaMemcpy(values.data(), memory + offset, count * sizeof(T),
               cudaMemcpyDeviceToHost);
    return values;
  }
  template <typename T>
  void write(const std::vector<T> &values) {
    cudaMemcpy(memory, values.data(), values.size() * sizeof(T),
               cudaMemcpyHostToDevice);
    // The streams do not wait for the default one, and a small copy from
    // pageable memory may still be under way.
    cudaDeviceSynchronize();
  }

  static constexpr size_t kBytes = size_t(64) << 20;
  std::shared_ptr<Streams> streams;
  char *memory = nullptr;
};

TEST_F(CudaStreams, SayWhereTheyAre) {
  EXPECT_EQ(streams->device(), 0);
  EXPECT_THAT(streams->place(), testing::MatchesRegex(".*:.*:.*"));
}

TEST_F(CudaStreams, OneWaitsForTheOther) {
  StreamHandle other = streams->createStream(StreamPriority::high, "other");
  EventHandle event = streams->createEvent();
  EXPECT_TRUE(streams->query(event));
  // A chain of copies, across streams: the last has what the first wrote.
  write(std::vector<int>{1, 2, 3, 4});
  const size_t half = kBytes / 2;
  for (int i = 0; i < 8; ++i)
    streams->copy(memory + half, memory, half - 16, streams->compute());
  streams->record(event, streams->compute());
  streams->wait(other, event);
  streams->copy(memory + kBytes - 16, memory + half, 16, other);
  streams->record(event, other);
  EXPECT_TRUE(streams->synchronize(event, Streams::Clock::now() + 20s));
  EXPECT_THAT(read<int>(4, kBytes - 16), testing::ElementsAre(1, 2, 3, 4));
  streams->destroyEvent(event);
  streams->destroyStream(other);
}

TEST_F(CudaStreams, AskingTooEarlyLeavesNoErrorBehind) {
  EventHandle event = streams->createEvent();
  const size_t half = kBytes / 2;
  for (int i = 0; i < 200; ++i)
    streams->copy(memory + half, memory, half, streams->compute());
  streams->record(event, streams->compute());
  EXPECT_FALSE(streams->query(event));
  // Behind each kernel LibTorch asks for the thread's last error.
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_TRUE(streams->synchronize(event, Streams::Clock::now() + 20s));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  streams->destroyEvent(event);
}

TEST_F(CudaStreams, DivideOnTheirOrder) {
  write(std::vector<float>{2, 4, 6});
  streams->divide(memory, 3, plan::DType::f32, 4, streams->compute());
  EXPECT_THAT(read<float>(3), testing::ElementsAre(0.5, 1, 1.5));
  write(std::vector<c10::Half>{c10::Half(3.0f)});
  streams->divide(memory, 1, plan::DType::f16, 2, streams->compute());
  EXPECT_EQ(static_cast<float>(read<c10::Half>(1)[0]), 1.5f);
  EXPECT_THROW(
      streams->divide(memory, 1, plan::DType::i32, 2, streams->compute()),
      std::logic_error);
}

TEST_F(CudaStreams, EventsMayBeAskedAboutBesideACapture) {
  EventHandle before = streams->createEvent();
  streams->record(before, streams->compute());
  EXPECT_FALSE(streams->isCapturing(streams->compute()));
  ASSERT_EQ(
      cudaStreamBeginCapture(streams->compute(), cudaStreamCaptureModeGlobal),
      cudaSuccess);
  EXPECT_TRUE(streams->isCapturing(streams->compute()));
  EXPECT_TRUE(streams->synchronize(before, Streams::Clock::now() + 20s));
  EventHandle within = streams->createEvent();
  streams->copy(memory + 1024, memory, 1024, streams->compute());
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams->compute(), &graph), cudaSuccess);
  EXPECT_NE(graph, nullptr);
  cudaGraphDestroy(graph);
  streams->destroyEvent(before);
  streams->destroyEvent(within);
}

TEST_F(CudaStreams, CountersRiseWithEachLaunchOfAGraph) {
  CounterHandle counter = streams->createCounter(),
                other = streams->createCounter();
  EXPECT_EQ(streams->read(counter), 0u);
  ASSERT_EQ(cudaStreamBeginCapture(streams->compute(),
                                   cudaStreamCaptureModeThreadLocal),
            cudaSuccess);
  streams->raise(counter, streams->compute());
  streams->raise(counter, streams->compute());
  streams->raise(other, streams->compute());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launched = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams->compute(), &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&launched, graph, 0), cudaSuccess);
  EXPECT_EQ(streams->read(counter), 0u);
  for (uint64_t launch = 1; launch <= 3; ++launch) {
    ASSERT_EQ(cudaGraphLaunch(launched, streams->compute()), cudaSuccess);
    // No call waits for the device: the count comes by itself.
    auto end = Streams::Clock::now() + 20s;
    while (streams->read(other) < launch && Streams::Clock::now() < end)
      continue;
    EXPECT_EQ(streams->read(counter), 2 * launch);
    EXPECT_EQ(streams->read(other), launch);
  }
  streams->raise(counter, streams->compute());
  cudaDeviceSynchronize();
  EXPECT_EQ(streams->read(counter), 7u);
  cudaGraphExecDestroy(launched);
  cudaGraphDestroy(graph);
  streams->destroyCounter(counter);
  streams->destroyCounter(other);
}

} // namespace
