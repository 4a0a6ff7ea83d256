//===- AheadWriter.h - Bytes on their way to a device -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_AHEADWRITER_H
#define FSDP_RUNTIME_DEVICE_AHEADWRITER_H

#include <cstddef>
#include <cstdint>
#include <span>

namespace fsdp {

/// Brings bytes of the host to a device while it still works on what they will
/// replace. Used by one thread. Throws fsdp::Error.
class AheadWriter {
public:
  virtual ~AheadWriter() = default;

  /// Takes all parts, which may change afterwards; those of the call before
  /// must have been put.
  virtual void begin(std::span<const std::span<const std::byte>> parts) = 0;
  /// Writes part `index` of the last `begin` to the device's memory `to`, in
  /// its turn among the rank's kernels.
  virtual void put(size_t index, char *to) = 0;
  /// Bytes that it holds on the device.
  virtual uint64_t memory() const = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_AHEADWRITER_H
