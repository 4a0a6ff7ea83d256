//===- RecordingStreams.cpp - A device that only takes notes --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "RecordingStreams.h"
#include "runtime/comm/Reduce.h"
#include "support/Error.h"

#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

using namespace fsdp;
using namespace fsdp::test;

RecordingStreams::RecordingStreams(int device, std::string place)
    : number(device), where(std::move(place)) {
  computeStream = createStream(StreamPriority::normal, "compute");
}

RecordingStreams::~RecordingStreams() = default;

StreamHandle RecordingStreams::createStream(StreamPriority priority,
                                            std::string_view name) {
  std::lock_guard lock(mutex);
  // Handles are numbers that nobody looks behind.
  auto handle = reinterpret_cast<StreamHandle>(next++);
  Stream &made = streams[handle];
  made.name = name;
  made.priority = priority;
  return handle;
}

void RecordingStreams::destroyStream(StreamHandle stream) noexcept {
  std::lock_guard lock(mutex);
  streams.erase(stream);
}

EventHandle RecordingStreams::createEvent() {
  std::lock_guard lock(mutex);
  auto handle = reinterpret_cast<EventHandle>(next++);
  events[handle] = {};
  return handle;
}

void RecordingStreams::destroyEvent(EventHandle event) noexcept {
  std::lock_guard lock(mutex);
  events.erase(event);
}

size_t RecordingStreams::add(StreamHandle stream, const std::string &what) {
  Stream &on = streams.at(stream);
  size_t work = works.size();
  works.push_back({what, stream, {}, nullptr, on.isCaptured});
  if (on.last)
    works.back().after.insert(*on.last);
  if (on.isHeld)
    held.insert(work);
  on.last = work;
  return work;
}

size_t RecordingStreams::put(StreamHandle stream, const std::string &what) {
  std::lock_guard lock(mutex);
  return add(stream, what);
}

void RecordingStreams::record(EventHandle event, StreamHandle stream) {
  std::lock_guard lock(mutex);
  bool isCaptured = streams.at(stream).isCaptured;
  events.at(event) = {add(stream, "record"), isCaptured ? captures : 0};
}

void RecordingStreams::wait(StreamHandle stream, EventHandle event) {
  std::lock_guard lock(mutex);
  const Event &awaited = events.at(event);
  Stream &on = streams.at(stream);
  if (awaited.capture && (!capturing || awaited.capture != captures))
    throw std::logic_error("a wait for an event of a capture that is over");
  if (awaited.capture && !on.isCaptured) {
    on.isCaptured = true;
    on.beforeCapture = std::exchange(on.last, std::nullopt);
  } else if (awaited.stands && !awaited.capture && on.isCaptured) {
    captureFailed = true;
    throw Error(ErrorId::DeviceFailed,
                "cudaStreamWaitEvent failed: dependency created on uncaptured "
                "work in another stream");
  }
  size_t work = add(stream, "wait");
  if (awaited.stands)
    works[work].after.insert(*awaited.stands);
}

bool RecordingStreams::isComplete(size_t work) const {
  std::set<size_t> open = {work};
  // Numbers ascend along the order, so each is seen once.
  while (!open.empty()) {
    size_t last = *open.rbegin();
    open.erase(last);
    if (held.count(last))
      return false;
    open.insert(works[last].after.begin(), works[last].after.end());
  }
  return true;
}

bool RecordingStreams::query(EventHandle event) {
  std::lock_guard lock(mutex);
  const Event &asked = events.at(event);
  if (asked.capture)
    throw std::logic_error("an event of a capture was asked about");
  return !asked.stands || isComplete(*asked.stands);
}

bool RecordingStreams::synchronize(EventHandle event,
                                   Clock::time_point deadline) {
  while (!query(event)) {
    if (Clock::now() >= deadline)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void RecordingStreams::copy(void *to, const void *from, size_t bytes,
                            StreamHandle stream) {
  std::memmove(to, from, bytes);
  put(stream, "copy");
}

void RecordingStreams::upload(void *to, const void *from, size_t bytes,
                              StreamHandle stream) {
  std::memcpy(to, from, bytes);
  put(stream, "upload");
}

void RecordingStreams::download(void *to, const void *from, size_t bytes,
                                StreamHandle stream) {
  std::memcpy(to, from, bytes);
  put(stream, "download");
}

void RecordingStreams::fill(void *to, unsigned char byte, size_t bytes,
                            StreamHandle stream) {
  std::memset(to, byte, bytes);
  put(stream, "fill");
}

void RecordingStreams::divide(void *data, size_t elements, plan::DType dtype,
                              double divisor, StreamHandle stream) {
  const void *source = data;
  reduceRows({&source, 1}, {&data, 1}, elements, dtype,
             {plan::Reduction::sum, 1, divisor});
  put(stream, "divide");
}

CounterHandle RecordingStreams::createCounter() {
  std::lock_guard lock(mutex);
  if (capturing)
    throw std::logic_error("a counter is made in a capture");
  auto handle = reinterpret_cast<CounterHandle>(next++);
  counters.insert(handle);
  return handle;
}

void RecordingStreams::destroyCounter(CounterHandle counter) noexcept {
  std::lock_guard lock(mutex);
  counters.erase(counter);
}

void RecordingStreams::raise(CounterHandle counter, StreamHandle stream) {
  std::lock_guard lock(mutex);
  works[add(stream, "raise")].counter = counter;
}

uint64_t RecordingStreams::read(CounterHandle counter) noexcept {
  std::lock_guard lock(mutex);
  uint64_t count = 0;
  for (size_t work = 0; work < works.size(); ++work)
    count += works[work].counter == counter && !works[work].isCaptured &&
             isComplete(work);
  return count;
}

bool RecordingStreams::isCapturing(StreamHandle stream) {
  std::lock_guard lock(mutex);
  return streams.at(stream).isCaptured;
}

std::vector<RecordingStreams::Work> RecordingStreams::all() const {
  std::lock_guard lock(mutex);
  return works;
}

std::vector<std::string> RecordingStreams::log() const {
  std::vector<std::string> lines;
  for (const Work &work : all())
    lines.push_back(name(work.stream) + ": " + work.what);
  return lines;
}

bool RecordingStreams::isAfter(size_t second, size_t first) const {
  std::set<size_t> open = works.at(second).after;
  while (!open.empty()) {
    size_t last = *open.rbegin();
    open.erase(last);
    if (last == first)
      return true;
    open.insert(works[last].after.begin(), works[last].after.end());
  }
  return false;
}

bool RecordingStreams::isBefore(size_t first, size_t second) const {
  std::lock_guard lock(mutex);
  return isAfter(second, first);
}

bool RecordingStreams::isIdle(StreamHandle stream) const {
  std::lock_guard lock(mutex);
  std::vector<bool> isOpen(works.size());
  for (size_t work = 0; work < works.size(); ++work) {
    isOpen[work] = held.count(work);
    for (size_t before : works[work].after)
      isOpen[work] = isOpen[work] || isOpen[before];
    if (isOpen[work] && works[work].stream == stream && !works[work].isCaptured)
      return false;
  }
  return true;
}

void RecordingStreams::hold(StreamHandle stream) {
  std::lock_guard lock(mutex);
  streams.at(stream).isHeld = true;
}

void RecordingStreams::release(StreamHandle stream) {
  std::lock_guard lock(mutex);
  streams.at(stream).isHeld = false;
  std::erase_if(held,
                [&](size_t work) { return works[work].stream == stream; });
}

void RecordingStreams::beginCapture() {
  std::lock_guard lock(mutex);
  capturing = true;
  captureFailed = false;
  ++captures;
  captureBegin = works.size();
  Stream &compute = streams.at(computeStream);
  compute.isCaptured = true;
  compute.beforeCapture = std::exchange(compute.last, std::nullopt);
}

RecordingStreams::Graph RecordingStreams::endCapture() {
  std::lock_guard lock(mutex);
  capturing = false;
  std::optional<size_t> end = streams.at(computeStream).last;
  std::string unjoined;
  for (auto &[handle, stream] : streams) {
    if (!std::exchange(stream.isCaptured, false))
      continue;
    if (handle != computeStream && stream.last &&
        !(end && isAfter(*end, *stream.last)))
      unjoined = stream.name;
    stream.last = std::exchange(stream.beforeCapture, std::nullopt);
  }
  if (captureFailed)
    throw Error(ErrorId::DeviceFailed, "cudaStreamEndCapture failed: operation "
                                       "failed due to a previous error during "
                                       "capture");
  if (!unjoined.empty())
    throw Error(ErrorId::DeviceFailed,
                "cudaStreamEndCapture failed: capturing stream has unjoined "
                "work on stream '" +
                    unjoined + "'");
  return {captureBegin, works.size()};
}

size_t RecordingStreams::launch(const Graph &graph,
                                const std::set<size_t> &toHold) {
  std::lock_guard lock(mutex);
  Stream &on = streams.at(computeStream);
  const size_t shift = works.size() - graph.begin;
  std::set<size_t> all;
  for (size_t number = graph.begin; number < graph.end; ++number) {
    if (!works[number].isCaptured) { // meanwhile, on a stream beside
      works.push_back({"", computeStream, {}});
      continue;
    }
    Work work = works[number];
    work.isCaptured = false;
    work.after.clear();
    for (size_t before : works[number].after)
      if (before >= graph.begin)
        work.after.insert(before + shift);
    if (work.after.empty() && on.last)
      work.after.insert(*on.last);
    if (toHold.count(number))
      held.insert(number + shift);
    all.insert(number + shift);
    works.push_back(std::move(work));
  }
  works.push_back({"graph", computeStream, std::move(all)});
  on.last = works.size() - 1;
  return shift;
}

void RecordingStreams::release(size_t work) {
  std::lock_guard lock(mutex);
  held.erase(work);
}

std::string RecordingStreams::name(StreamHandle stream) const {
  std::lock_guard lock(mutex);
  auto found = streams.find(stream);
  return found == streams.end() ? "?" : found->second.name;
}

StreamPriority RecordingStreams::priority(StreamHandle stream) const {
  std::lock_guard lock(mutex);
  return streams.at(stream).priority;
}

StreamHandle RecordingStreams::find(const std::string &name) const {
  std::lock_guard lock(mutex);
  for (const auto &[handle, stream] : streams)
    if (stream.name == name)
      return handle;
  return nullptr;
}

size_t RecordingStreams::liveStreams() const {
  std::lock_guard lock(mutex);
  return streams.size();
}

size_t RecordingStreams::liveEvents() const {
  std::lock_guard lock(mutex);
  return events.size();
}

size_t RecordingStreams::liveCounters() const {
  std::lock_guard lock(mutex);
  return counters.size();
}
