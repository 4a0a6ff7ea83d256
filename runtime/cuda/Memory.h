//===- Memory.h - Memory of a CUDA device -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_MEMORY_H
#define FSDP_RUNTIME_CUDA_MEMORY_H

#include "runtime/device/Memory.h"
#include "runtime/device/Streams.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace fsdp {

/// That of one rank: what the host does to it takes its turn on the rank's
/// compute stream.
class CudaMemory final : public Memory {
public:
  struct Ways {
    /// Called while the host waits for the device; throws if that would have no
    /// end.
    std::function<void()> check;
    /// Gives the first mapping its memory, or null: any does. May be empty.
    std::function<std::shared_ptr<void>(size_t bytes)> first;
    /// How long the host waits for the device.
    std::chrono::milliseconds deadline = std::chrono::minutes(10);
  };

  CudaMemory(std::shared_ptr<Streams> streams, Ways ways);

  bool isHost() const override { return false; }
  char *map(uint64_t bytes) override;
  void unmap(char *begin, uint64_t bytes) noexcept override;
  void clear(char *begin, uint64_t bytes) override { fill(begin, 0, bytes); }
  void write(char *to, const void *from, uint64_t bytes) override;
  void read(void *to, const char *from, uint64_t bytes) override;
  void fill(char *to, unsigned char byte, uint64_t bytes) override;

  /// Waits until all is done that was put on the compute stream.
  void synchronize();

private:
  const std::shared_ptr<Streams> streams;
  Ways ways;
  std::shared_ptr<void> first;
  /// Of the last `synchronize`.
  std::chrono::steady_clock::duration lastWait{};
};

/// Memory of the host that a rank's device reads and writes on its own.
class PinnedMemory final : public HostReachableMemory {
public:
  explicit PinnedMemory(std::shared_ptr<Streams> streams);

  char *map(uint64_t bytes) override;
  void unmap(char *begin, uint64_t bytes) noexcept override;
  void clear(char *begin, uint64_t bytes) override { fill(begin, 0, bytes); }

private:
  const std::shared_ptr<Streams> streams;
};

/// Throws fsdp::Error (DeviceFailed) unless `status`, a cudaError_t, says
/// success. `call` names what returned it.
void checkCuda(int status, const char *call);

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_MEMORY_H
