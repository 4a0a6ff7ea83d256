//===- Memory.cpp - Memory of a CUDA device -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Memory.h"

#include "support/Error.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

using namespace fsdp;

void fsdp::checkCuda(int status, const char *call) {
  auto error = static_cast<cudaError_t>(status);
  if (error == cudaSuccess)
    return;
  (void)cudaGetLastError(); // not to be found by whoever calls next
  throw Error(ErrorId::DeviceFailed,
              std::string(call) + " failed: " + cudaGetErrorString(error) +
                  " (" + cudaGetErrorName(error) + ")");
}

CudaMemory::CudaMemory(std::shared_ptr<Streams> streams, Ways ways)
    : streams(std::move(streams)), ways(std::move(ways)) {}

char *CudaMemory::map(uint64_t bytes) {
  streams->use();
  if (auto give = std::exchange(ways.first, nullptr))
    if ((first = give(bytes))) {
      fill(static_cast<char *>(first.get()), 0, bytes);
      return static_cast<char *>(first.get());
    }
  void *memory = nullptr;
  cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    size_t unused = 0, all = 0;
    (void)cudaMemGetInfo(&unused, &all);
    throw Error(
        ErrorId::OutOfMemory,
        "a rank needs " + std::to_string(bytes) +
            " bytes of a GPU's memory in one piece, found " +
            std::to_string(unused) + " of " + std::to_string(all) +
            " unused, from which libraries such as NCCL take more; use more "
            "ranks, or a smaller batch");
  }
  checkCuda(status, "cudaMalloc");
  try {
    fill(static_cast<char *>(memory), 0, bytes);
  } catch (...) {
    unmap(static_cast<char *>(memory), bytes);
    throw;
  }
  return static_cast<char *>(memory);
}

void CudaMemory::unmap(char *begin, uint64_t) noexcept {
  // Waits for what uses it.
  if (begin == first.get())
    first.reset();
  else
    (void)cudaFree(begin);
}

void CudaMemory::write(char *to, const void *from, uint64_t bytes) {
  // Pageable memory is staged before the call returns (CUDA Runtime API, "API
  // synchronization behavior"), so `from` may be changed.
  if (bytes != 0)
    checkCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice,
                              streams->compute()),
              "cudaMemcpyAsync");
}

void CudaMemory::read(void *to, const char *from, uint64_t bytes) {
  if (bytes == 0)
    return;
  // A copy into pageable memory blocks until the stream comes to it.
  synchronize();
  checkCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost,
                            streams->compute()),
            "cudaMemcpyAsync");
  checkCuda(cudaStreamSynchronize(streams->compute()), "cudaStreamSynchronize");
}

void CudaMemory::fill(char *to, unsigned char byte, uint64_t bytes) {
  if (bytes != 0)
    checkCuda(cudaMemsetAsync(to, byte, bytes, streams->compute()),
              "cudaMemsetAsync");
}

void CudaMemory::synchronize() {
  // cudaStreamSynchronize would not see that a peer is gone.
  using namespace std::chrono;
  auto begin = steady_clock::now();
  auto nextCheck = begin + milliseconds(100);
  auto end = begin + ways.deadline;
  // Steps take about as long as the one before. Until shortly before then the
  // processor is others', and for some time around then the end is seen at
  // once.
  const auto early = begin + lastWait - lastWait / 16 - microseconds(200);
  const auto late = begin + lastWait + lastWait / 16 + microseconds(200);
  while (true) {
    cudaError_t status = cudaStreamQuery(streams->compute());
    if (status == cudaSuccess) {
      lastWait = steady_clock::now() - begin;
      return;
    }
    if (status != cudaErrorNotReady)
      checkCuda(status, "the rank's kernels");
    // Else the check behind the thread's next kernel finds it, as an error.
    (void)cudaGetLastError();
    auto now = steady_clock::now();
    if (now >= nextCheck) {
      ways.check();
      if (now >= end)
        throw Error(ErrorId::DeadlinePassed,
                    "expected the GPU to finish what was put on it within " +
                        std::to_string(ways.deadline.count() / 1000) +
                        " s, but it did not: a transfer waits for a rank that "
                        "is gone, or a kernel does not end");
      nextCheck = now + milliseconds(100);
    }
    if (now < early)
      std::this_thread::sleep_until(std::min(early, nextCheck));
    else if (now < late)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(microseconds(50));
  }
}

PinnedMemory::PinnedMemory(std::shared_ptr<Streams> streams)
    : streams(std::move(streams)) {}

char *PinnedMemory::map(uint64_t bytes) {
  streams->use();
  void *memory = nullptr;
  cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw Error(ErrorId::OutOfMemory,
                "a rank needs " + std::to_string(bytes) +
                    " bytes of pinned memory of the host, which cannot be "
                    "had; use more ranks, a machine with more memory, or "
                    "cpu_offload_pin_memory: false");
  }
  checkCuda(status, "cudaHostAlloc");
  std::memset(memory, 0, bytes);
  return static_cast<char *>(memory);
}

void PinnedMemory::unmap(char *begin, uint64_t) noexcept {
  (void)cudaFreeHost(begin);
}
