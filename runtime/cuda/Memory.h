//===- Memory.h - Memory of a CUDA device -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_MEMORY_H
#define FSDP_RUNTIME_CUDA_MEMORY_H

#include "runtime/device/StreamMemory.h"

#include <functional>
#include <memory>
#include <string>

namespace fsdp {

/// That of one rank.
class CudaMemory final : public StreamMemory {
public:
  /// Gives the first mapping its memory, or null: any does. May be empty.
  using First = std::function<std::shared_ptr<void>(size_t bytes)>;

  CudaMemory(std::shared_ptr<Streams> streams, Waiting waiting,
             First giveFirst = nullptr);

  char *map(uint64_t bytes) override;
  void unmap(char *begin, uint64_t bytes) noexcept override;

private:
  First giveFirst;
  std::shared_ptr<void> first;
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
