//===- ReadAhead.h - Batches read before they are asked for -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_READAHEAD_H
#define FSDP_RUNTIME_DATA_READAHEAD_H

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace fsdp {

/// Keeps a thread that reads the batches behind the one that was asked for
/// last. Used by one thread.
class ReadAhead {
public:
  /// Puts the batch at a position into memory that has room for it. Called on
  /// the thread, for one batch at a time.
  using Read = std::function<void(uint64_t position, std::byte *to)>;

  /// Batches of `bytes` bytes, each `stride` positions behind the one before.
  ReadAhead(uint64_t bytes, uint64_t stride, Read read);
  ~ReadAhead();
  ReadAhead(const ReadAhead &) = delete;
  ReadAhead &operator=(const ReadAhead &) = delete;

  /// The batch at `position`, as soon as it is there; valid until the next
  /// call. Where it does not follow the one before, what was read ahead is
  /// thrown away. Throws what reading this batch threw.
  std::span<const std::byte> get(uint64_t position);

  /// Of all batches that it has room for.
  uint64_t memory() const { return buffers.size() * bytes; }

private:
  enum class Status { free, reading, ready, inUse };
  struct Buffer {
    Status status = Status::free;
    uint64_t position = 0;
    std::exception_ptr failure;
    std::vector<std::byte> data;
  };

  void work();
  Buffer *find(Status status, uint64_t position);

  const uint64_t bytes, stride;
  const Read read;
  std::mutex mutex;
  std::condition_variable isAwaited, isReady;
  // Guarded by the mutex, but for the data of a buffer that is being read or
  // in use.
  std::vector<Buffer> buffers;
  uint64_t next = 0;     ///< position to be read next
  bool isHungry = false; ///< whether the thread is to fill what is free
  bool isEnding = false;
  std::thread thread; ///< last: it uses all else
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_READAHEAD_H
