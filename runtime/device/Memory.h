//===- Memory.h - What arenas are made of -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_MEMORY_H
#define FSDP_RUNTIME_DEVICE_MEMORY_H

#include <cstdint>

namespace fsdp {

/// A kind of memory, and how the host reaches it. Calls may come from any
/// thread; on a device they take their turn among the rank's kernels. Throws
/// fsdp::Error.
class Memory {
public:
  virtual ~Memory() = default;

  /// Whether pointers to it mean something to the host.
  virtual bool isHost() const = 0;

  /// `bytes` bytes, a multiple of 4096, that are zero; aligned for any kernel.
  /// Throws fsdp::Error (OutOfMemory).
  virtual char *map(uint64_t bytes) = 0;
  virtual void unmap(char *begin, uint64_t bytes) noexcept = 0;

  /// Makes all that `map` gave zero again; where the system allows it, its
  /// pages go back.
  virtual void clear(char *begin, uint64_t bytes) = 0;

  /// `from` may be changed as soon as the call returns.
  virtual void write(char *to, const void *from, uint64_t bytes) = 0;
  /// Waits until the bytes are there.
  virtual void read(void *to, const char *from, uint64_t bytes) = 0;
  virtual void fill(char *to, unsigned char byte, uint64_t bytes) = 0;
};

/// Memory whose pointers mean something to the host, which copies there itself.
class HostReachableMemory : public Memory {
public:
  bool isHost() const final { return true; }
  void write(char *to, const void *from, uint64_t bytes) final;
  void read(void *to, const char *from, uint64_t bytes) final;
  void fill(char *to, unsigned char byte, uint64_t bytes) final;
};

/// That of the host, whose pages are taken when they are first touched.
Memory &hostMemory();

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_MEMORY_H
