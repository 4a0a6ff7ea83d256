//===- RecordingStreams.h - A device that only takes notes ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Streams without a device, over the host's memory. What is put on a stream is
// done at once; what is recorded is the order that a device would be bound to.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_RECORDINGSTREAMS_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_RECORDINGSTREAMS_H

#include "runtime/device/Streams.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fsdp::test {

class RecordingStreams final : public Streams {
public:
  explicit RecordingStreams(int device = 0, std::string place = "");
  ~RecordingStreams() override;

  int device() const override { return number; }
  std::string place() const override { return where; }
  void use() override {}
  size_t freeMemory() override { return unused; }
  StreamHandle compute() const override { return computeStream; }
  StreamHandle createStream(StreamPriority priority,
                            std::string_view name) override;
  void destroyStream(StreamHandle stream) noexcept override;
  EventHandle createEvent() override;
  void destroyEvent(EventHandle event) noexcept override;
  void record(EventHandle event, StreamHandle stream) override;
  void wait(StreamHandle stream, EventHandle event) override;
  bool query(EventHandle event) override;
  bool synchronize(EventHandle event, Clock::time_point deadline) override;
  void copy(void *to, const void *from, size_t bytes,
            StreamHandle stream) override;
  void upload(void *to, const void *from, size_t bytes,
              StreamHandle stream) override;
  void download(void *to, const void *from, size_t bytes,
                StreamHandle stream) override;
  void fill(void *to, unsigned char byte, size_t bytes,
            StreamHandle stream) override;
  bool isDone(StreamHandle stream) override { return isIdle(stream); }
  void divide(void *data, size_t elements, plan::DType dtype, double divisor,
              StreamHandle stream) override;
  CounterHandle createCounter() override;
  void destroyCounter(CounterHandle counter) noexcept override;
  void raise(CounterHandle counter, StreamHandle stream) override;
  uint64_t read(CounterHandle counter) noexcept override;
  bool isCapturing(StreamHandle stream) override;

  //===--------------------------------------------------------------------===//
  // For tests
  //===--------------------------------------------------------------------===//

  /// Somebody takes so much of the device's memory, of which there is 1 GiB.
  void take(size_t bytes) { unused -= bytes; }

  /// One thing on a stream. `after`: those that it comes after directly.
  struct Work {
    std::string what; ///< "record", "wait", "copy", or as `put` was told
    StreamHandle stream;
    std::set<size_t> after;
    CounterHandle counter = nullptr; ///< of "raise"
    bool isCaptured = false;         ///< no device does it
  };
  /// Works that were captured.
  struct Graph {
    size_t begin, end;
  };

  /// Puts something on a stream, as a kernel would be; returns its number.
  size_t put(StreamHandle stream, const std::string &what);
  /// Everything so far, by number.
  std::vector<Work> all() const;
  /// "gather: record" for each, in the order of the calls.
  std::vector<std::string> log() const;
  /// Whether the device must have done `first` before it begins `second`.
  bool isBefore(size_t first, size_t second) const;

  /// What is put on `stream` from now on is not complete, nor what comes after
  /// it, until `release`.
  void hold(StreamHandle stream);
  void release(StreamHandle stream);
  /// Whether all that is on `stream` is complete, what graphs put there too.
  bool isIdle(StreamHandle stream) const;
  /// What is put on the compute stream between the two, and on streams that
  /// joined it by waiting for an event of the capture, is not done, only
  /// recorded. As in CUDA, events that are recorded there cannot be asked
  /// about, nor waited for once the capture is over; a stream that is captured
  /// cannot wait for what is not (DeviceFailed, which ends the capture); and
  /// the end throws fsdp::Error (DeviceFailed) if such a wait failed or if a
  /// stream that joined was not joined to the compute stream again.
  void beginCapture();
  Graph endCapture();
  /// Puts all of the graph on the compute stream, as a whole. Those of its
  /// works in `held`, and what comes after them, are not complete until
  /// `release`. Returns how much greater numbers the launch's works have than
  /// the graph's.
  size_t launch(const Graph &graph, const std::set<size_t> &held = {});
  void release(size_t work);

  std::string name(StreamHandle stream) const;
  StreamPriority priority(StreamHandle stream) const;
  /// By name; null if there is none.
  StreamHandle find(const std::string &name) const;
  /// Streams and events that were made and not destroyed.
  size_t liveStreams() const;
  size_t liveEvents() const;
  size_t liveCounters() const;

private:
  struct Stream {
    std::string name;
    StreamPriority priority;
    std::optional<size_t> last;
    bool isHeld = false;
    bool isCaptured = false;
    std::optional<size_t> beforeCapture; ///< of one that is captured
  };
  struct Event {
    std::optional<size_t> stands;
    uint64_t capture = 0; ///< that it was recorded in, from 1; 0: none
  };

  size_t add(StreamHandle stream, const std::string &what);
  bool isComplete(size_t work) const;
  bool isAfter(size_t second, size_t first) const;

  const int number;
  const std::string where;
  mutable std::mutex mutex;
  std::map<StreamHandle, Stream> streams;
  std::map<EventHandle, Event> events;
  std::vector<Work> works;
  std::set<size_t> held;
  std::set<CounterHandle> counters;
  size_t captureBegin = 0;
  uintptr_t next = 1;
  std::atomic<size_t> unused = size_t(1) << 30;
  bool capturing = false;
  bool captureFailed = false;
  uint64_t captures = 0;
  StreamHandle computeStream = nullptr;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_RECORDINGSTREAMS_H
