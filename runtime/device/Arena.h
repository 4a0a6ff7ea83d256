//===- Arena.h - The one mapping that holds a rank's tensors ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_ARENA_H
#define FSDP_RUNTIME_DEVICE_ARENA_H

#include "runtime/device/Memory.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace fsdp {

/// Page-aligned memory of a fixed size, zero at first. Every tensor of a plan
/// lies in it, or where a part of it was moved to, so it must outlive them.
class Arena {
public:
  /// `memory` outlives it. Throws fsdp::Error (OutOfMemory).
  explicit Arena(uint64_t bytes, Memory &memory = hostMemory());
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Makes all of it zero again; what was moved stays as it is.
  void clear();

  /// Lets `bytes` bytes from `offset` on lie at `to`, which belongs to somebody
  /// else; for parts that do not overlap, before anything lies there.
  void move(uint64_t offset, uint64_t bytes, char *to);

  /// Valid up to the end of a part, or the beginning of the next moved one.
  char *at(uint64_t offset) const;
  uint64_t bytes() const { return size; }
  /// Whether the host may use what `at` returns.
  bool isHost() const { return memory.isHost(); }

  /// Bytes from `offset` on, in one part, for the host.
  void write(uint64_t offset, const void *from, uint64_t bytes) const {
    memory.write(at(offset), from, bytes);
  }
  void read(uint64_t offset, void *to, uint64_t bytes) const {
    memory.read(to, at(offset), bytes);
  }
  void fill(uint64_t offset, unsigned char byte, uint64_t bytes) const {
    memory.fill(at(offset), byte, bytes);
  }

  bool contains(const void *pointer) const {
    auto p = static_cast<const char *>(pointer);
    return p >= base && p < base + mapped;
  }

  /// Whether any arena of the process contains `pointer`. Thread-safe.
  static bool anyContains(const void *pointer);

private:
  Memory &memory;
  uint64_t size, mapped;
  char *base;
  struct Part {
    uint64_t bytes;
    char *begin;
  };
  std::map<uint64_t, Part> moved; ///< by offset
};

/// Bytes of an arena for the host to write: they themselves, or where it cannot
/// reach them a buffer, all of which `flush` copies there.
class BytesToWrite {
public:
  BytesToWrite(const Arena &arena, uint64_t offset, uint64_t bytes);
  char *data() { return begin; }
  void flush();

private:
  const Arena &arena;
  const uint64_t offset, bytes;
  std::unique_ptr<char[]> buffer;
  char *begin;
};

/// Bytes of an arena for the host to read: they themselves, or a copy.
class BytesToRead {
public:
  BytesToRead(const Arena &arena, uint64_t offset, uint64_t bytes);
  const char *data() const { return begin; }

private:
  std::unique_ptr<char[]> buffer;
  const char *begin;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_ARENA_H
