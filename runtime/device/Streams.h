//===- Streams.h - Order of work on a device --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the runtime asks of a device's streams and events, so that the order in
// which it puts work on them can be tested without a device. Needs no CUDA
// header: a handle is what the CUDA runtime calls cudaStream_t or cudaEvent_t.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_DEVICE_STREAMS_H
#define FSDP_RUNTIME_DEVICE_STREAMS_H

#include "plan/plan_generated.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The CUDA runtime's own opaque types (driver_types.h), never defined here.
struct CUstream_st;
struct CUevent_st;

namespace fsdp {

using StreamHandle = CUstream_st *;
using EventHandle = CUevent_st *;
/// Each kind of streams knows what is behind it.
using CounterHandle = struct DeviceCounter *;

/// Which of two streams' blocks the device starts first when both wait.
enum class StreamPriority { normal, high };

/// Streams and events of the one device that a rank runs on. What a call puts
/// on a stream happens in the order of the calls. All calls may come from any
/// thread; those that fail throw fsdp::Error (DeviceFailed), which names the
/// call and the device's reason.
class Streams {
public:
  using Clock = std::chrono::steady_clock;

  virtual ~Streams() = default;

  /// Number of the device in this process.
  virtual int device() const = 0;
  /// What tells the device from all others of the machine, whatever number it
  /// has in this process: "0000:1b:00.0".
  virtual std::string place() const = 0;
  /// Makes the device the calling thread's: libraries that the thread calls
  /// next work on it. Every thread begins without.
  virtual void use() = 0;

  /// Bytes of the device's memory that nobody holds, in any process.
  virtual size_t freeMemory() = 0;

  /// Where kernels run; lives as long as this object.
  virtual StreamHandle compute() const = 0;

  /// A stream that does not wait for any other by itself. `name` is for
  /// profilers. The caller destroys it.
  virtual StreamHandle createStream(StreamPriority priority,
                                    std::string_view name) = 0;
  /// Work that is on it still happens.
  virtual void destroyStream(StreamHandle stream) noexcept = 0;

  /// An event without times, not recorded yet. The caller destroys it.
  virtual EventHandle createEvent() = 0;
  virtual void destroyEvent(EventHandle event) noexcept = 0;

  /// From now on the event stands for what is on `stream` at this moment.
  virtual void record(EventHandle event, StreamHandle stream) = 0;
  /// What is put on `stream` from now on begins after what `event` stands for
  /// at this moment; nothing if it was never recorded. Does not block.
  virtual void wait(StreamHandle stream, EventHandle event) = 0;

  /// Whether what the event stands for is complete.
  virtual bool query(EventHandle event) = 0;
  /// Blocks until it is; false at the deadline.
  virtual bool synchronize(EventHandle event, Clock::time_point deadline) = 0;
  /// Whether all that was put on `stream` is complete.
  virtual bool isDone(StreamHandle stream) = 0;

  /// Puts a copy within the device's memory on `stream`.
  virtual void copy(void *to, const void *from, size_t bytes,
                    StreamHandle stream) = 0;
  /// Puts a copy from the host's memory on `stream`. Of pinned memory it reads
  /// when its turn has come; other memory may change when the call returns.
  virtual void upload(void *to, const void *from, size_t bytes,
                      StreamHandle stream) = 0;
  /// The same in the other direction. To memory that is not pinned it is over
  /// when the call returns.
  virtual void download(void *to, const void *from, size_t bytes,
                        StreamHandle stream) = 0;
  /// Puts on `stream` that all bytes of the device's memory become `byte`.
  virtual void fill(void *to, unsigned char byte, size_t bytes,
                    StreamHandle stream) = 0;
  /// Puts the division of `elements` floating-point or complex numbers in the
  /// device's memory on `stream`.
  virtual void divide(void *data, size_t elements, plan::DType dtype,
                      double divisor, StreamHandle stream) = 0;

  /// A number that the device counts up, from 0, and the host looks at. Not to
  /// be made while work is captured. The caller destroys it, once nothing on a
  /// stream or in a graph raises it any more.
  virtual CounterHandle createCounter() = 0;
  virtual void destroyCounter(CounterHandle counter) noexcept = 0;
  /// Puts its rise by one on `stream`. What raises one counter has an order. In
  /// a graph, each launch raises it anew.
  virtual void raise(CounterHandle counter, StreamHandle stream) = 0;
  /// How often the device has raised it. A look at memory: it asks neither the
  /// device nor a driver, and never fails.
  virtual uint64_t read(CounterHandle counter) noexcept = 0;

  /// Whether work on `stream` is recorded into a graph instead of done. Events
  /// that are recorded meanwhile cannot be asked about.
  virtual bool isCapturing(StreamHandle stream) = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_STREAMS_H
