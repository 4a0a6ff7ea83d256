//===- Copies.h - From one of a rank's memories to another ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_COPIES_H
#define FSDP_RUNTIME_DEVICE_COPIES_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <span>

namespace fsdp {

/// Copies between a rank's device and the host, beside what the rank computes.
/// Those in one direction keep their order. Used by the rank's thread. Throws
/// fsdp::Error.
class Copies {
public:
  virtual ~Copies() = default;

  struct Part {
    void *to;
    const void *from;
    uint64_t bytes;
  };

  /// A place for one copy at a time: of an instruction, for good.
  using Slot = uint32_t;
  /// `stream` is upload or download.
  virtual Slot reserve(plan::Stream stream) = 0;

  /// Begins behind all that was put on the device. `parts` and what they name
  /// stay as they are until the wait.
  virtual void start(Slot slot, std::span<const Part> parts) = 0;
  /// What is put on the device from now on is behind the copy that was started
  /// last in that slot.
  virtual void wait(Slot slot) = 0;

  /// Returns when the host may read and write what all copies that were waited
  /// for moved.
  virtual void join() = 0;

  /// What was put on the device while it was captured, some of these copies
  /// maybe, was put there once more as a graph.
  virtual void noteLaunch() {}
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_COPIES_H
