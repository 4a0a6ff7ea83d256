//===- CudaMemory.cpp - Memory of a CUDA device ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/CudaMemory.h"

#include "runtime/support/Error.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
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
    throw Error(ErrorId::OutOfMemory,
                "a rank needs " + std::to_string(bytes) +
                    " bytes of a GPU's memory in one piece, found " +
                    std::to_string(unused) + " of " + std::to_string(all) +
                    " unused; use more ranks, or a smaller batch");
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
  microseconds pause(0);
  auto nextCheck = steady_clock::now() + milliseconds(100);
  auto end = steady_clock::now() + ways.deadline;
  while (true) {
    cudaError_t status = cudaStreamQuery(streams->compute());
    if (status == cudaSuccess)
      return;
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
    // What is nearly complete is seen at once; longer waits leave the processor
    // to others.
    if (pause.count() == 0)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(pause);
    pause = std::min(pause + microseconds(1), microseconds(50));
  }
}
