//===- SimulatedDevice.cpp - A device that does its work late -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SimulatedStreams.h"
#include "support/Error.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

using namespace fsdp;
using namespace fsdp::test;

/// One thing that was captured: a work, or an event that is recorded or waited
/// for.
struct SimulatedDevice::Graph {
  struct Item {
    StreamHandle stream;
    std::function<void()> run;
    std::vector<ByteUse> uses;
    EventHandle record = nullptr, wait = nullptr;
    std::function<bool()> isReady = nullptr;
  };
  StreamHandle origin;
  std::vector<Item> items;
  std::set<StreamHandle> joined;
  /// Of each stream that joined, whether all of it has come back so far.
  std::map<StreamHandle, bool> isBack;
  // What stands for a stream or an event in each launch.
  std::map<StreamHandle, StreamHandle> streams;
  std::map<EventHandle, EventHandle> events;
  EventHandle launched = nullptr;
  /// By event: the streams of which all up to then is behind it.
  std::map<EventHandle, std::set<StreamHandle>> covers;
  std::map<StreamHandle, std::set<StreamHandle>> covered; ///< by stream
};

/// No two devices have a handle in common.
static constexpr int kDeviceShift = 32;

static uintptr_t nextDevice() {
  static std::atomic<uintptr_t> next = 1;
  return next++ << kDeviceShift;
}

SimulatedDevice::SimulatedDevice(Lateness lateness)
    : lateness(lateness), handles(nextDevice()), random(lateness.seed) {}

SimulatedDevice::~SimulatedDevice() = default;

bool SimulatedDevice::has(StreamHandle stream) const {
  return reinterpret_cast<uintptr_t>(stream) >> kDeviceShift ==
         handles >> kDeviceShift;
}

StreamHandle SimulatedDevice::createStream(const std::string &name) {
  std::lock_guard lock(mutex);
  auto stream = reinterpret_cast<StreamHandle>(handles + (next += 8));
  streams[stream] = {name, order.add("stream " + name), {}, false};
  return stream;
}

EventHandle SimulatedDevice::createEvent() {
  std::lock_guard lock(mutex);
  auto event = reinterpret_cast<EventHandle>(handles + (next += 8));
  events[event];
  return event;
}

//===----------------------------------------------------------------------===//
// When works are done
//===----------------------------------------------------------------------===//

void SimulatedDevice::run(const Work &work) {
  if (work.run) {
    bool before = std::exchange(isRunning, true);
    try {
      work.run();
    } catch (...) {
      isRunning = before;
      throw;
    }
    isRunning = before;
  }
  if (work.event) {
    Event &event = events.at(work.event);
    event.passed = std::max(event.passed, work.generation);
  }
}

/// Does the next work of a stream, if nothing is in its way.
bool SimulatedDevice::advance(StreamHandle stream) {
  std::deque<Work> &queue = streams.at(stream).queue;
  if (queue.empty())
    return false;
  Work work = queue.front();
  if (work.before && events.at(work.before).passed < work.generation)
    return false;
  if (work.isReady && !work.isReady())
    return false;
  queue.pop_front();
  run(work);
  return true;
}

/// Some works of some streams are done, or none.
void SimulatedDevice::passTime() {
  if (lateness.kind != Lateness::Kind::random || isRunning || isForeign())
    return;
  for (uint64_t count = random() % 3; count > 0; --count) {
    std::vector<StreamHandle> busy;
    for (const auto &[handle, stream] : streams)
      if (!stream.queue.empty())
        busy.push_back(handle);
    if (!busy.empty())
      advance(busy[random() % busy.size()]);
  }
}

void SimulatedDevice::add(StreamHandle stream, Work work) {
  streams.at(stream).queue.push_back(std::move(work));
  if (lateness.kind == Lateness::Kind::none)
    drain(stream, nullptr, 0);
}

/// Up to where the event passes; null: to the end.
void SimulatedDevice::drain(StreamHandle stream, EventHandle until,
                            uint64_t generation) {
  if (++depth > 10000)
    throw std::logic_error("streams wait for each other");
  std::deque<Work> &queue = streams.at(stream).queue;
  while (!queue.empty() && !(until && events.at(until).passed >= generation)) {
    const Work &work = queue.front();
    if (work.before && events.at(work.before).passed < work.generation)
      drain(work.on, work.before, work.generation);
    else if (!advance(stream) && !goOn())
      // Other devices have to come.
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  --depth;
}

bool SimulatedDevice::isForeign() const {
  return owner != std::thread::id() && owner != std::this_thread::get_id();
}

bool SimulatedDevice::goOn() {
  std::lock_guard lock(mutex);
  bool wentOn = false;
  for (const auto &[handle, stream] : streams)
    if (!isForeign() && !isRunning)
      wentOn |= advance(handle);
  return wentOn;
}

void SimulatedDevice::drop() noexcept {
  std::lock_guard lock(mutex);
  for (auto &[handle, stream] : streams)
    stream.queue.clear();
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// The calling one, or what stands for all.
std::thread::id SimulatedDevice::thread() const {
  return isOneHost ? std::thread::id() : std::this_thread::get_id();
}

CheckedOrder::Actor SimulatedDevice::host() {
  auto found = hosts.find(thread());
  if (found == hosts.end())
    found = hosts.emplace(thread(), order.add("the host")).first;
  return found->second;
}

void SimulatedDevice::nameHost(const std::string &name) {
  std::lock_guard lock(mutex);
  if (!hosts.count(thread()))
    hosts[thread()] = order.add(name);
}

void SimulatedDevice::meet(const void *meeting) {
  std::lock_guard lock(mutex);
  CheckedOrder::Actor mine = host();
  order.follow(mine, meetings[meeting]);
  order.work(mine, {});
  meetings[meeting] = order.known(mine);
}

void SimulatedDevice::hostUses(const ByteUse &use) {
  std::lock_guard lock(mutex);
  order.work(host(), {use});
}

/// What is put on a stream comes after what the host did and knows of.
void SimulatedDevice::follow(Stream &stream) {
  order.follow(stream.actor, order.known(host()));
}

static bool overlap(const std::vector<ByteUse> &some,
                    const std::vector<ByteUse> &others) {
  auto end = [](const ByteUse &use) {
    return static_cast<const char *>(use.begin) + use.bytes;
  };
  for (const ByteUse &one : some)
    for (const ByteUse &other : others)
      if (one.begin < end(other) && other.begin < end(one))
        return true;
  return false;
}

void SimulatedDevice::put(StreamHandle handle, std::function<void()> work,
                          std::vector<ByteUse> uses,
                          std::function<bool()> isReady) {
  std::lock_guard lock(mutex);
  Stream &stream = streams.at(handle);
  if (stream.isCaptured) {
    capture->items.push_back({handle, std::move(work), std::move(uses), nullptr,
                              nullptr, std::move(isReady)});
    capture->isBack[handle] = handle == capture->origin;
    return;
  }
  if (stray && stray->from == handle && overlap(stray->uses, uses))
    endStray();
  passTime();
  follow(stream);
  order.work(stream.actor, uses);
  add(handle,
      {std::move(work), nullptr, nullptr, 0, nullptr, std::move(isReady)});
}

void SimulatedDevice::endStray() {
  Stray ended = *std::exchange(stray, std::nullopt);
  wait(ended.from, ended.done);
}

void SimulatedDevice::putKernel(StreamHandle stream, std::function<void()> work,
                                std::vector<ByteUse> uses,
                                std::vector<ByteUse> scratch) {
  std::lock_guard lock(mutex);
  if (stray && (stray->from != stream || overlap(stray->uses, uses)))
    endStray();
  kernels += !scratch.empty();
  const bool strays = !scratch.empty() && kernels == fault.number &&
                      fault.kind == PlantedFault::Kind::strayKernel;
  std::vector<ByteUse> operands = uses;
  uses.insert(uses.end(), scratch.begin(), scratch.end());
  if (!strays)
    return put(stream, std::move(work), std::move(uses));
  StreamHandle side = createStream("stray");
  EventHandle begun = createEvent(), done = createEvent();
  record(begun, stream);
  wait(side, begun);
  put(side, std::move(work), std::move(uses));
  record(done, side);
  stray = {stream, done, std::move(operands)};
}

void SimulatedDevice::record(EventHandle handle, StreamHandle on) {
  std::lock_guard lock(mutex);
  // What follows from the event may use anything.
  if (stray && stray->from == on)
    endStray();
  Stream &stream = streams.at(on);
  Event &event = events.at(handle);
  if (stream.isCaptured) {
    event.capture = captures;
    capture->items.push_back({on, nullptr, {}, handle});
    capture->covers[handle] = capture->covered[on];
    capture->covers[handle].insert(on);
    return;
  }
  passTime();
  event.capture = 0;
  event.stream = on;
  follow(stream);
  event.knownBefore = std::exchange(event.known, order.known(stream.actor));
  add(on, {nullptr, handle, nullptr, ++event.recorded, on});
}

void SimulatedDevice::wait(StreamHandle handle, EventHandle awaited) {
  std::lock_guard lock(mutex);
  Event &event = events.at(awaited);
  Stream &stream = streams.at(handle);
  if (event.capture != 0) {
    if (!capture || event.capture != captures)
      throw std::logic_error("a wait for an event of a capture that is over");
    if (!stream.isCaptured) {
      stream.isCaptured = true;
      capture->joined.insert(handle);
    }
    capture->items.push_back({handle, nullptr, {}, nullptr, awaited});
    capture->isBack[handle] = handle == capture->origin;
    for (StreamHandle each : capture->covers.at(awaited)) {
      capture->covered[handle].insert(each);
      if (handle == capture->origin)
        capture->isBack[each] = true;
    }
    return;
  }
  if (stream.isCaptured) {
    if (event.recorded == 0)
      return;
    captureFailed = true;
    throw Error(ErrorId::DeviceFailed,
                "cudaStreamWaitEvent failed: dependency created on uncaptured "
                "work in another stream");
  }
  passTime();
  if (event.recorded == 0)
    return;
  const bool isFaulty = ++waits == fault.number;
  if (isFaulty && fault.kind == PlantedFault::Kind::missingWait)
    return order.plant(stream.actor, event.known, {});
  if (isFaulty && fault.kind == PlantedFault::Kind::staleWait) {
    order.plant(stream.actor, event.known, event.knownBefore);
    if (event.recorded > 1)
      add(handle,
          {nullptr, nullptr, awaited, event.recorded - 1, event.stream});
    return;
  }
  order.follow(stream.actor, event.known, /*isWait=*/true);
  add(handle, {nullptr, nullptr, awaited, event.recorded, event.stream});
}

bool SimulatedDevice::query(EventHandle handle) {
  std::lock_guard lock(mutex);
  const Event &event = events.at(handle);
  if (event.capture != 0)
    throw Error(ErrorId::DeviceFailed,
                "cudaEventQuery failed: operation not permitted on an event "
                "last recorded in a capturing stream (cudaErrorCapturedEvent)");
  passTime();
  if (event.passed < event.recorded)
    return false;
  order.follow(host(), event.known);
  return true;
}

void SimulatedDevice::synchronize(EventHandle handle) {
  std::lock_guard lock(mutex);
  Event &event = events.at(handle);
  if (event.capture != 0 || event.recorded == 0) {
    query(handle);
    return;
  }
  if (++syncs == fault.number && fault.kind == PlantedFault::Kind::missingSync)
    return order.plant(host(), event.known, {});
  drain(event.stream, handle, event.recorded);
  order.follow(host(), event.known, /*isWait=*/true);
}

void SimulatedDevice::synchronize(StreamHandle stream) {
  std::lock_guard lock(mutex);
  if (stray && stray->from == stream)
    endStray();
  drain(stream, nullptr, 0);
  order.follow(host(), order.known(streams.at(stream).actor));
}

void SimulatedDevice::synchronizeAll() {
  std::lock_guard lock(mutex);
  for (const auto &[handle, stream] : streams)
    synchronize(handle);
}

std::vector<std::string> SimulatedDevice::races() const {
  std::lock_guard lock(mutex);
  return order.seen().races();
}

std::map<WaitNeed, std::map<std::string, uint64_t>>
SimulatedDevice::judgeWaits() const {
  std::lock_guard lock(mutex);
  std::map<WaitNeed, std::map<std::string, uint64_t>> counts;
  for (const OrderGraph::Wait &wait : order.kept()->judgeWaits())
    ++counts[wait.need][order.seen().name(wait.actor) + " waits for " +
                        order.seen().name(wait.awaited)];
  return counts;
}

std::optional<WaitNeed> SimulatedDevice::judgePlanted() const {
  std::lock_guard lock(mutex);
  return order.kept()->judgePlanted();
}

uint64_t SimulatedDevice::compared() const {
  std::lock_guard lock(mutex);
  return order.seen().compared();
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

bool SimulatedDevice::isCapturing(StreamHandle stream) const {
  std::lock_guard lock(mutex);
  return streams.at(stream).isCaptured;
}

bool SimulatedDevice::isCapturing() const {
  std::lock_guard lock(mutex);
  return capture != nullptr;
}

void SimulatedDevice::beginCapture(StreamHandle stream) {
  std::lock_guard lock(mutex);
  if (capture)
    throw std::logic_error("one capture begins in another");
  ++captures;
  captureFailed = false;
  capture = std::make_shared<Graph>();
  capture->origin = stream;
  capture->joined.insert(stream);
  streams.at(stream).isCaptured = true;
}

std::shared_ptr<SimulatedDevice::Graph> SimulatedDevice::endCapture() {
  std::lock_guard lock(mutex);
  std::shared_ptr<Graph> graph = std::exchange(capture, nullptr);
  if (!graph)
    throw std::logic_error("no capture has begun");
  for (StreamHandle stream : graph->joined)
    streams.at(stream).isCaptured = false;
  if (captureFailed)
    throw Error(ErrorId::DeviceFailed, "cudaStreamEndCapture failed: operation "
                                       "failed due to a previous error during "
                                       "capture");
  for (auto [stream, isBack] : graph->isBack)
    if (!isBack && stream != graph->origin)
      throw Error(ErrorId::DeviceFailed,
                  "cudaStreamEndCapture failed: capturing stream has unjoined "
                  "work on stream '" +
                      streams.at(stream).name + "'");
  return graph;
}

size_t SimulatedDevice::sizeOf(const Graph &graph) const {
  return graph.items.size();
}

void SimulatedDevice::launch(Graph &graph) {
  std::lock_guard lock(mutex);
  ++launches;
  // Captured streams have an order of their own in each launch, which begins
  // behind what is on the stream that it is launched on, and nothing else.
  std::set<StreamHandle> begun{graph.origin};
  if (!graph.launched)
    graph.launched = createEvent();
  record(graph.launched, graph.origin);
  graph.streams[graph.origin] = graph.origin;
  for (Graph::Item &item : graph.items) {
    StreamHandle &stream = graph.streams[item.stream];
    if (!stream)
      stream = createStream(streams.at(item.stream).name + " in a graph");
    if (begun.insert(item.stream).second)
      wait(stream, graph.launched);
    if (item.record) {
      EventHandle &event = graph.events[item.record];
      if (!event)
        event = createEvent();
      record(event, stream);
    } else if (item.wait) {
      wait(stream, graph.events.at(item.wait));
    } else {
      put(stream, item.run, item.uses, item.isReady);
    }
  }
}
