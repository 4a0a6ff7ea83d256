//===- StreamAheadWriter.h - Inputs on a copy stream ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_STREAMAHEADWRITER_H
#define FSDP_RUNTIME_DEVICE_STREAMAHEADWRITER_H

#include "runtime/device/AheadWriter.h"
#include "runtime/device/Memory.h"
#include "runtime/device/Streams.h"

#include <memory>
#include <vector>

namespace fsdp {

/// Two buffers of pinned memory, and two of the device: one is filled on a
/// stream of its own while kernels may still need the other.
class StreamAheadWriter final : public AheadWriter {
public:
  /// `pinned`, which the device reads on its own, and `device` outlive it.
  StreamAheadWriter(std::shared_ptr<Streams> streams, Memory &pinned,
                    Memory &device);
  ~StreamAheadWriter() override;
  StreamAheadWriter(const StreamAheadWriter &) = delete;
  StreamAheadWriter &operator=(const StreamAheadWriter &) = delete;

  void begin(std::span<const std::span<const std::byte>> parts) override;
  void put(size_t index, char *to) override;
  uint64_t memory() const override {
    return buffers[0].bytes + buffers[1].bytes;
  }

private:
  struct Buffer {
    char *pinned = nullptr, *device = nullptr;
    uint64_t bytes = 0;
    EventHandle filled = nullptr; ///< on the device
    EventHandle taken = nullptr;  ///< from there
  };
  struct Part {
    uint64_t offset, bytes;
  };

  void reserve(Buffer &buffer, uint64_t bytes);
  void release(Buffer &buffer) noexcept;

  const std::shared_ptr<Streams> streams;
  Memory &pinnedMemory, &deviceMemory;
  const StreamHandle stream;
  Buffer buffers[2];
  size_t current = 0;
  std::vector<Part> parts; ///< in the current buffer
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_STREAMAHEADWRITER_H
