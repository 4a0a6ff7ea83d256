//===- SimulatedStreams.h - Streams that do their work late -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A device in the host's memory. What is put on its streams happens at once, or
// as late as events and waits allow: then whatever is not ordered by an event
// happens in the wrong order, and results show it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_SIMULATEDSTREAMS_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_SIMULATEDSTREAMS_H

#include "runtime/comm/Reduce.h"
#include "runtime/device/Streams.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace fsdp::test {

/// What several ranks' streams are on.
class SimulatedDevice {
public:
  explicit SimulatedDevice(bool isLate) : isLate(isLate) {}

  StreamHandle createStream();
  EventHandle createEvent();
  void put(StreamHandle stream, std::function<void()> work);
  void record(EventHandle event, StreamHandle stream);
  void wait(StreamHandle stream, EventHandle event);
  bool query(EventHandle event);
  /// Does what is on the stream, and of others what it waits for. Throws
  /// std::logic_error if streams wait for each other.
  void synchronize(StreamHandle stream);
  size_t eventCount() const { return events.size(); }

private:
  struct Work {
    std::function<void()> run;    ///< or
    EventHandle event = nullptr;  ///< one that passes, or
    EventHandle before = nullptr; ///< one that has to pass first
    uint64_t generation = 0;      ///< of the event
    StreamHandle on = nullptr;    ///< where it passes
  };
  struct Event {
    uint64_t recorded = 0, passed = 0;
    StreamHandle stream = nullptr;
  };

  void add(StreamHandle stream, Work work);
  void drain(StreamHandle stream, EventHandle until, uint64_t generation);

  const bool isLate;
  std::recursive_mutex mutex;
  std::map<StreamHandle, std::deque<Work>> streams;
  std::map<EventHandle, Event> events;
  uintptr_t next = 8;
  int depth = 0;
};

/// Those of one rank.
class SimulatedStreams final : public Streams {
public:
  explicit SimulatedStreams(std::shared_ptr<SimulatedDevice> device)
      : simulated(std::move(device)), computeStream(simulated->createStream()) {
  }

  int device() const override { return 0; }
  std::string place() const override { return "simulated"; }
  void use() override {}
  size_t freeMemory() override { return 0; }
  StreamHandle compute() const override { return computeStream; }
  StreamHandle createStream(StreamPriority, std::string_view) override {
    return simulated->createStream();
  }
  void destroyStream(StreamHandle) noexcept override {}
  EventHandle createEvent() override { return simulated->createEvent(); }
  void destroyEvent(EventHandle) noexcept override {}
  void record(EventHandle event, StreamHandle stream) override {
    simulated->record(event, stream);
  }
  void wait(StreamHandle stream, EventHandle event) override {
    simulated->wait(stream, event);
  }
  bool query(EventHandle event) override { return simulated->query(event); }
  bool synchronize(EventHandle event, Clock::time_point) override {
    return query(event);
  }
  void copy(void *to, const void *from, size_t bytes,
            StreamHandle stream) override;
  void divide(void *, size_t, plan::DType, double, StreamHandle) override;
  CounterHandle createCounter() override;
  void destroyCounter(CounterHandle) noexcept override {}
  void raise(CounterHandle, StreamHandle) override;
  uint64_t read(CounterHandle) noexcept override { return 0; }
  bool isCapturing(StreamHandle) override { return false; }

  /// Work of the rank's own.
  void put(std::function<void()> work) {
    simulated->put(computeStream, std::move(work));
  }
  void finish() { simulated->synchronize(computeStream); }

private:
  const std::shared_ptr<SimulatedDevice> simulated;
  const StreamHandle computeStream;
};

/// `reduceRows` as work on such a stream.
std::function<void(std::span<const void *const>, std::span<void *const>, size_t,
                   plan::DType, const Combination &, StreamHandle)>
makeSimulatedReduce(std::shared_ptr<SimulatedDevice> device);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_SIMULATEDSTREAMS_H
