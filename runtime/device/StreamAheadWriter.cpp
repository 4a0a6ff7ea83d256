//===- StreamAheadWriter.cpp - Inputs on a copy stream --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/StreamAheadWriter.h"

#include "runtime/device/Pages.h"
#include "support/Error.h"

#include <chrono>

using namespace fsdp;

/// Of parts in a buffer, as kernels like tensors to begin.
static constexpr uint64_t kAlignment = 256;
/// What memory is mapped in.
/// Longer than any copy takes.
static constexpr std::chrono::minutes kPatience(10);

static uint64_t roundUp(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

StreamAheadWriter::StreamAheadWriter(std::shared_ptr<Streams> onDevice,
                                     Memory &pinned, Memory &device)
    : streams(std::move(onDevice)), pinnedMemory(pinned), deviceMemory(device),
      stream(streams->createStream(StreamPriority::normal, "copy_in")) {
  for (Buffer &buffer : buffers) {
    buffer.filled = streams->createEvent();
    buffer.taken = streams->createEvent();
  }
}

StreamAheadWriter::~StreamAheadWriter() {
  // Giving memory back waits for what uses it.
  for (Buffer &buffer : buffers) {
    release(buffer);
    streams->destroyEvent(buffer.filled);
    streams->destroyEvent(buffer.taken);
  }
  streams->destroyStream(stream);
}

void StreamAheadWriter::release(Buffer &buffer) noexcept {
  if (buffer.device)
    deviceMemory.unmap(buffer.device, buffer.bytes);
  if (buffer.pinned)
    pinnedMemory.unmap(buffer.pinned, buffer.bytes);
  buffer.device = buffer.pinned = nullptr;
  buffer.bytes = 0;
}

void StreamAheadWriter::reserve(Buffer &buffer, uint64_t bytes) {
  if (bytes <= buffer.bytes)
    return;
  release(buffer);
  bytes = roundUp(bytes, kPage);
  buffer.pinned = pinnedMemory.map(bytes);
  buffer.bytes = bytes;
  buffer.device = deviceMemory.map(bytes);
  // New memory is zeroed on the compute stream.
  streams->record(buffer.taken, streams->compute());
}

void StreamAheadWriter::begin(
    std::span<const std::span<const std::byte>> given) {
  current = 1 - current;
  Buffer &buffer = buffers[current];
  parts.clear();
  uint64_t end = 0;
  for (std::span<const std::byte> part : given) {
    parts.push_back({end, part.size()});
    end += roundUp(part.size(), kAlignment);
  }
  // What was begun two calls ago has left the pinned memory long since.
  if (!streams->synchronize(buffer.filled, Streams::Clock::now() + kPatience))
    throw Error(ErrorId::DeviceFailed,
                "a copy of inputs to the GPU does not end");
  reserve(buffer, end);
  for (size_t i = 0; i < given.size(); ++i)
    pinnedMemory.write(buffer.pinned + parts[i].offset, given[i].data(),
                       given[i].size());
  streams->wait(stream, buffer.taken);
  streams->upload(buffer.device, buffer.pinned, end, stream);
  streams->record(buffer.filled, stream);
}

void StreamAheadWriter::put(size_t index, char *to) {
  const Buffer &buffer = buffers[current];
  const Part &part = parts.at(index);
  streams->wait(streams->compute(), buffer.filled);
  streams->copy(to, buffer.device + part.offset, part.bytes,
                streams->compute());
  streams->record(buffer.taken, streams->compute());
}
