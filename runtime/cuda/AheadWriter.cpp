//===- AheadWriter.cpp - Inputs on a copy stream --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/AheadWriter.h"

#include "runtime/cuda/Memory.h"
#include "support/Error.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstring>

using namespace fsdp;

/// Of parts in a buffer, as kernels like tensors to begin.
static constexpr uint64_t kAlignment = 256;

/// Longer than any copy takes.
static constexpr std::chrono::minutes kPatience(10);

CudaAheadWriter::CudaAheadWriter(std::shared_ptr<Streams> onDevice)
    : streams(std::move(onDevice)),
      stream(streams->createStream(StreamPriority::normal, "copy_in")) {
  for (Buffer &buffer : buffers) {
    buffer.filled = streams->createEvent();
    buffer.taken = streams->createEvent();
  }
}

CudaAheadWriter::~CudaAheadWriter() {
  // Both wait for what uses the memory.
  for (Buffer &buffer : buffers) {
    release(buffer);
    streams->destroyEvent(buffer.filled);
    streams->destroyEvent(buffer.taken);
  }
  streams->destroyStream(stream);
}

void CudaAheadWriter::release(Buffer &buffer) noexcept {
  (void)cudaFree(buffer.device);
  (void)cudaFreeHost(buffer.pinned);
  buffer.device = buffer.pinned = nullptr;
  buffer.bytes = 0;
}

void CudaAheadWriter::reserve(Buffer &buffer, uint64_t bytes) {
  if (bytes <= buffer.bytes)
    return;
  release(buffer);
  streams->use();
  void *pinned = nullptr, *device = nullptr;
  checkCuda(cudaMallocHost(&pinned, bytes), "cudaMallocHost");
  buffer.pinned = static_cast<char *>(pinned);
  checkCuda(cudaMalloc(&device, bytes), "cudaMalloc");
  buffer.device = static_cast<char *>(device);
  buffer.bytes = bytes;
}

void CudaAheadWriter::begin(std::span<const std::span<const std::byte>> given) {
  current = 1 - current;
  Buffer &buffer = buffers[current];
  parts.clear();
  uint64_t end = 0;
  for (std::span<const std::byte> part : given) {
    parts.push_back({end, part.size()});
    end += (part.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  // What was begun two calls ago has left the pinned memory long since.
  if (!streams->synchronize(buffer.filled, Streams::Clock::now() + kPatience))
    throw Error(ErrorId::DeviceFailed,
                "a copy of inputs to the GPU does not end");
  reserve(buffer, end);
  for (size_t i = 0; i < given.size(); ++i)
    std::memcpy(buffer.pinned + parts[i].offset, given[i].data(),
                given[i].size());
  streams->wait(stream, buffer.taken);
  if (end != 0)
    checkCuda(cudaMemcpyAsync(buffer.device, buffer.pinned, end,
                              cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
  streams->record(buffer.filled, stream);
}

void CudaAheadWriter::put(size_t index, char *to) {
  const Buffer &buffer = buffers[current];
  const Part &part = parts.at(index);
  streams->wait(streams->compute(), buffer.filled);
  streams->copy(to, buffer.device + part.offset, part.bytes,
                streams->compute());
  streams->record(buffer.taken, streams->compute());
}
