//===- Memory.cpp - Memory of a CUDA device -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Memory.h"

#include "runtime/exec/IndexGuard.h"
#include "support/Error.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

using namespace fsdp;

void fsdp::checkCuda(int status, const char *call) {
  auto error = static_cast<cudaError_t>(status);
  if (error == cudaSuccess)
    return;
  (void)cudaGetLastError(); // not to be found by whoever calls next
  throw Error(ErrorId::DeviceFailed,
              hintAtIndices(std::string(call) +
                            " failed: " + cudaGetErrorString(error) + " (" +
                            cudaGetErrorName(error) + ")"));
}

CudaMemory::CudaMemory(std::shared_ptr<Streams> streams, Waiting waiting,
                       First giveFirst)
    : StreamMemory(std::move(streams), std::move(waiting)),
      giveFirst(std::move(giveFirst)) {}

char *CudaMemory::map(uint64_t bytes) {
  streams->use();
  if (auto give = std::exchange(giveFirst, nullptr))
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
