//===- SimulatedStreams.cpp - Streams that do their work late -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SimulatedStreams.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

using namespace fsdp;
using namespace fsdp::test;

StreamHandle SimulatedDevice::createStream() {
  std::lock_guard lock(mutex);
  auto stream = reinterpret_cast<StreamHandle>(next += 8);
  streams[stream];
  return stream;
}

EventHandle SimulatedDevice::createEvent() {
  std::lock_guard lock(mutex);
  auto event = reinterpret_cast<EventHandle>(next += 8);
  events[event];
  return event;
}

void SimulatedDevice::add(StreamHandle stream, Work work) {
  streams.at(stream).push_back(std::move(work));
  if (!isLate)
    synchronize(stream);
}

void SimulatedDevice::put(StreamHandle stream, std::function<void()> work) {
  std::lock_guard lock(mutex);
  add(stream, {std::move(work), nullptr, nullptr, 0, nullptr});
}

void SimulatedDevice::record(EventHandle handle, StreamHandle stream) {
  std::lock_guard lock(mutex);
  Event &event = events.at(handle);
  event.stream = stream;
  add(stream, {nullptr, handle, nullptr, ++event.recorded, stream});
}

void SimulatedDevice::wait(StreamHandle stream, EventHandle handle) {
  std::lock_guard lock(mutex);
  const Event &event = events.at(handle);
  if (event.recorded != 0)
    add(stream, {nullptr, nullptr, handle, event.recorded, event.stream});
}

bool SimulatedDevice::query(EventHandle handle) {
  std::lock_guard lock(mutex);
  const Event &event = events.at(handle);
  return event.passed == event.recorded;
}

void SimulatedDevice::synchronize(StreamHandle stream) {
  std::lock_guard lock(mutex);
  drain(stream, nullptr, 0);
}

/// Up to where the event passes; null: to the end.
void SimulatedDevice::drain(StreamHandle stream, EventHandle until,
                            uint64_t generation) {
  if (++depth > 10000)
    throw std::logic_error("streams wait for each other");
  std::deque<Work> &queue = streams.at(stream);
  while (!queue.empty() && !(until && events.at(until).passed >= generation)) {
    Work work = queue.front();
    if (work.before && events.at(work.before).passed < work.generation) {
      drain(work.on, work.before, work.generation);
      continue;
    }
    queue.pop_front();
    if (work.run)
      work.run();
    if (work.event)
      events.at(work.event).passed =
          std::max(events.at(work.event).passed, work.generation);
  }
  --depth;
}

void SimulatedStreams::copy(void *to, const void *from, size_t bytes,
                            StreamHandle stream) {
  simulated->put(stream, [=] { std::memcpy(to, from, bytes); });
}

void SimulatedStreams::divide(void *, size_t, plan::DType, double,
                              StreamHandle) {
  throw std::logic_error("nobody divides here");
}

CounterHandle SimulatedStreams::createCounter() {
  throw std::logic_error("nobody counts here");
}

void SimulatedStreams::raise(CounterHandle, StreamHandle) {
  throw std::logic_error("nobody counts here");
}

std::function<void(std::span<const void *const>, std::span<void *const>, size_t,
                   plan::DType, const Combination &, StreamHandle)>
fsdp::test::makeSimulatedReduce(std::shared_ptr<SimulatedDevice> device) {
  return [device](std::span<const void *const> sources,
                  std::span<void *const> outputs, size_t elements,
                  plan::DType dtype, const Combination &combination,
                  StreamHandle stream) {
    std::vector<const void *> from(sources.begin(), sources.end());
    std::vector<void *> to(outputs.begin(), outputs.end());
    device->put(stream,
                [=] { reduceRows(from, to, elements, dtype, combination); });
  };
}
