//===- StreamMemory.h - Memory that the host reaches in turn ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_STREAMMEMORY_H
#define FSDP_RUNTIME_DEVICE_STREAMMEMORY_H

#include "runtime/device/Memory.h"
#include "runtime/device/Streams.h"

#include <chrono>
#include <functional>
#include <memory>

namespace fsdp {

/// One rank's memory of a device: what the host does to it takes its turn on
/// the rank's compute stream.
class StreamMemory : public Memory {
public:
  /// How the host waits for the device.
  struct Waiting {
    /// Called meanwhile; throws if that would have no end.
    std::function<void()> check;
    std::chrono::milliseconds deadline = std::chrono::minutes(10);
  };

  StreamMemory(std::shared_ptr<Streams> streams, Waiting waiting);

  bool isHost() const final { return false; }
  void clear(char *begin, uint64_t bytes) final { fill(begin, 0, bytes); }
  void write(char *to, const void *from, uint64_t bytes) final;
  void read(void *to, const char *from, uint64_t bytes) final;
  void fill(char *to, unsigned char byte, uint64_t bytes) final;

  /// Waits until all is done that was put on the compute stream.
  void synchronize();

protected:
  const std::shared_ptr<Streams> streams;

private:
  const Waiting waiting;
  /// Of the last `synchronize`.
  std::chrono::steady_clock::duration lastWait{};
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_STREAMMEMORY_H
