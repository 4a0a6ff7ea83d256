//===- GraphRecorder.h - Work that is launched as one -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the runtime asks of a device's graphs, so that what it does with them
// can be tested without a device.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_DEVICE_GRAPHRECORDER_H
#define FSDP_RUNTIME_DEVICE_GRAPHRECORDER_H

#include "runtime/device/Streams.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace fsdp {

/// Work that was recorded once and is done anew by each launch.
class WorkGraph {
public:
  virtual ~WorkGraph() = default;

  /// Puts all of it on the stream that it was recorded from. Throws fsdp::Error
  /// (DeviceFailed).
  virtual void launch() = 0;
  /// How many kernels, copies and the like it is.
  virtual size_t size() const = 0;
};

/// Makes them, of what LibTorch and its libraries put on a device's streams.
class GraphRecorder {
public:
  virtual ~GraphRecorder() = default;

  /// What the calling thread asks of LibTorch from now on is put on `stream`.
  virtual void enter(StreamHandle stream) = 0;

  /// Records instead of doing it what `put` puts on `stream`, and on those that
  /// join it. Throws what `put` throws, or fsdp::Error (DeviceFailed): then
  /// nothing was done, and no stream records any more.
  virtual std::unique_ptr<WorkGraph>
  record(StreamHandle stream, const std::function<void()> &put) = 0;

  /// After `record` threw `reason`: whether the calling thread can go on with
  /// LibTorch's libraries, which keep handles and errors for each thread. May
  /// call them for it, on `stream`.
  virtual bool recovers(const std::string &reason, StreamHandle stream) = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_GRAPHRECORDER_H
