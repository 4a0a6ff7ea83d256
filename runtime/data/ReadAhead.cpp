//===- ReadAhead.cpp - Batches that are read before they are asked for ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/ReadAhead.h"

#include <algorithm>
#include <utility>

using namespace fsdp;

/// The one in use, one ahead, and more while they are small: the thread is then
/// woken for several.
static uint64_t countBuffers(uint64_t bytes) {
  constexpr uint64_t kLeast = 2, kMost = 32, kRoom = uint64_t{8} << 20;
  return std::clamp(kRoom / std::max<uint64_t>(bytes, 1), kLeast, kMost);
}

ReadAhead::ReadAhead(uint64_t bytes, uint64_t stride, Read read)
    : bytes(bytes), stride(stride), read(std::move(read)),
      buffers(countBuffers(bytes)) {
  for (Buffer &buffer : buffers)
    buffer.data.resize(bytes);
  thread = std::thread([this] { work(); });
}

ReadAhead::~ReadAhead() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
  }
  isAwaited.notify_one();
  thread.join();
}

ReadAhead::Buffer *ReadAhead::find(Status status, uint64_t position) {
  for (Buffer &buffer : buffers)
    if (buffer.status == status && buffer.position == position)
      return &buffer;
  return nullptr;
}

void ReadAhead::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    isAwaited.wait(lock, [&] { return isEnding || isHungry; });
    if (isEnding)
      return;
    auto buffer = std::ranges::find(buffers, Status::free, &Buffer::status);
    if (buffer == buffers.end()) {
      isHungry = false;
      continue;
    }
    buffer->status = Status::reading;
    buffer->position = std::exchange(next, next + stride);
    buffer->failure = nullptr;
    uint64_t position = buffer->position;
    lock.unlock();
    std::exception_ptr failure;
    try {
      read(position, buffer->data.data());
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    buffer->status = Status::ready;
    buffer->failure = failure;
    isReady.notify_one();
  }
}

std::span<const std::byte> ReadAhead::get(uint64_t position) {
  std::unique_lock lock(mutex);
  for (Buffer &buffer : buffers)
    if (buffer.status == Status::inUse)
      buffer.status = Status::free;
  if (!find(Status::ready, position) && !find(Status::reading, position))
    next = position;
  Buffer *found = nullptr;
  for (;;) {
    // What is ready and lies elsewhere was read in vain.
    for (Buffer &buffer : buffers)
      if (buffer.status == Status::ready &&
          (buffer.position - position) / stride >= buffers.size())
        buffer.status = Status::free;
    found = find(Status::ready, position);
    auto count = static_cast<size_t>(
        std::ranges::count(buffers, Status::free, &Buffer::status));
    if (!isHungry && (!found || 2 * count >= buffers.size())) {
      isHungry = true;
      isAwaited.notify_one();
    }
    if (found)
      break;
    isReady.wait(lock);
  }
  found->status = Status::inUse;
  if (found->failure)
    std::rethrow_exception(found->failure);
  return found->data;
}
