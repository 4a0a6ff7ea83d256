//===- KernelsOnHostTest.cpp - Our own kernels as C++ of the host ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The sources of our kernels, compiled against cuda_runtime.h beside this file,
// under the sanitizers of addresses and undefined behaviour: what lies outside
// of a tensor, or is not aligned as an access wants it, ends the test. Threads
// and blocks run in several orders, of which no number may depend.
//
//===----------------------------------------------------------------------===//

#include "cuda_runtime.h"

#include "test/unit/runtime/cuda/KernelNumbers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

// The libraries beside are not instrumented: what they hold at the end is
// theirs. Fibers have stacks of their own.
extern "C" const char *__asan_default_options() {
  return "detect_leaks=0:detect_stack_use_after_return=0";
}

using namespace fsdp;
using namespace fsdp::test;
using on_host::Order;

namespace {

/// Blocks that end where nothing else begins.
class HeapKernels final : public KernelMemory {
public:
  StreamHandle onStream() const override { return nullptr; }
  char *make(uint64_t bytes, uint64_t skew) override {
    // The library's own alignment is 16.
    blocks.emplace_back(new char[skew + bytes]);
    return blocks.back().get() + skew;
  }
  void clear() override { blocks.clear(); }
  void write(char *to, const void *from, uint64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void read(void *to, const char *from, uint64_t bytes) override {
    std::memcpy(to, from, bytes);
  }

private:
  std::vector<std::unique_ptr<char[]>> blocks;
};

class KernelsOnHost : public testing::TestWithParam<Order> {
protected:
  void SetUp() override { on_host::order = GetParam(); }
  void TearDown() override { on_host::order = Order::forward; }
  HeapKernels kernels;
};

TEST_P(KernelsOnHost, ReductionsHaveTheHostsBits) {
  expectTheHostsReductions(kernels);
}

TEST_P(KernelsOnHost, SumsOfPartsHaveTheHostsBits) {
  expectTheHostsPartSums(kernels);
}

TEST_P(KernelsOnHost, DrawsHaveTheHostsNumbers) {
  expectTheHostsDraws(kernels);
}

TEST_P(KernelsOnHost, UpdatesHaveTheHostsBits) {
  expectTheHostsUpdates(kernels);
}

TEST_P(KernelsOnHost, CodesStandForTheHostsNumbers) {
  expectTheHostsNumbersOfCodes(kernels);
}

TEST_P(KernelsOnHost, CountsRiseByOne) { expectCounts(kernels); }

//===----------------------------------------------------------------------===//
// The language: a block's threads share memory, and wait for each other
//===----------------------------------------------------------------------===//

constexpr unsigned kThreads = 64;

__global__ void turnAround(int *values) {
  __shared__ int all[kThreads];
  size_t at = size_t(blockIdx.x) * blockDim.x;
  all[threadIdx.x] = values[at + threadIdx.x];
  __syncthreads();
  values[at + threadIdx.x] = all[kThreads - 1 - threadIdx.x];
}

__global__ void turnAroundTooEarly(int *values) {
  __shared__ int all[kThreads];
  size_t at = size_t(blockIdx.x) * blockDim.x;
  all[threadIdx.x] = values[at + threadIdx.x];
  values[at + threadIdx.x] = all[kThreads - 1 - threadIdx.x];
}

__global__ void waitInHalf() {
  if (threadIdx.x < kThreads / 2)
    __syncthreads();
}

__global__ void readBehind(const int *values, int *result) {
  if (threadIdx.x == 0)
    *result = values[blockDim.x];
}

cudaLaunchConfig_t makeConfig(unsigned blocks, unsigned threads) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  return config;
}

std::vector<int> countUp(unsigned count) {
  std::vector<int> all(count);
  for (unsigned i = 0; i < count; ++i)
    all[i] = static_cast<int>(i);
  return all;
}

std::vector<int> turned(void (*kernel)(int *)) {
  std::vector<int> values = countUp(3 * kThreads);
  cudaLaunchConfig_t config = makeConfig(3, kThreads);
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel, values.data()), cudaSuccess);
  return values;
}

TEST_P(KernelsOnHost, BarriersOrderABlocksThreads) {
  std::vector<int> found = turned(turnAround);
  for (unsigned i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i], static_cast<int>(i / kThreads * kThreads + kThreads -
                                         1 - i % kThreads));
}

TEST_P(KernelsOnHost, AMissingBarrierGivesOtherNumbers) {
  std::vector<int> expected = turned(turnAround);
  EXPECT_NE(turned(turnAroundTooEarly), expected);
}

TEST_P(KernelsOnHost, ABarrierThatSomeDoNotReachIsAnError) {
  cudaLaunchConfig_t config = makeConfig(1, kThreads);
  EXPECT_THROW(cudaLaunchKernelEx(&config, waitInHalf), std::logic_error);
}

TEST_P(KernelsOnHost, MoreThreadsThanABlockHasAreRefused) {
  cudaLaunchConfig_t config = makeConfig(1, 2048);
  EXPECT_EQ(cudaLaunchKernelEx(&config, waitInHalf),
            cudaErrorInvalidConfiguration);
}

TEST(KernelsOnHostDeathTest, ReadingBehindATensorEndsTheTest) {
  std::vector<int> values = countUp(kThreads);
  values.shrink_to_fit();
  int result = 0;
  cudaLaunchConfig_t config = makeConfig(1, kThreads);
  EXPECT_DEATH(
      (void)cudaLaunchKernelEx(&config, readBehind, values.data(), &result),
      "heap-buffer-overflow");
}

INSTANTIATE_TEST_SUITE_P(, KernelsOnHost,
                         testing::Values(Order::forward, Order::backward,
                                         Order::shuffled),
                         [](const auto &info) {
                           return info.param == Order::forward    ? "forward"
                                  : info.param == Order::backward ? "backward"
                                                                  : "shuffled";
                         });

} // namespace
