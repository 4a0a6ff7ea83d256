//===- SimulatedStreams.h - Streams that do their work late -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A device in the host's memory. What is put on its streams happens at once, as
// late as events and waits allow, or some time between: then whatever is not
// ordered by an event happens in the wrong order, and results show it. Beside
// that, all accesses to memory are checked for being ordered (HappensBefore.h),
// whenever they happen.
//
// It is as strict as CUDA. Pinned memory is read and written when a copy's turn
// has come, other memory of the host before the call returns. A stream that is
// captured cannot wait for what is not; nobody can ask about events that were
// recorded in a capture, nor wait for them once it is over; and streams that
// joined a capture have to come back.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_SIMULATEDSTREAMS_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_SIMULATEDSTREAMS_H

#include "OrderGraph.h"
#include "runtime/comm/Reduce.h"
#include "runtime/device/Streams.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace fsdp::test {

/// When the device does its work.
struct Lateness {
  enum class Kind { none, most, random };
  Kind kind = Kind::none;
  uint64_t seed = 0; ///< of the random ones
};

/// What goes wrong, so that a test sees that it is found.
struct PlantedFault {
  enum class Kind {
    none,
    missingWait, ///< a stream does not wait
    staleWait,   ///< it waits for what the event stood for before
    missingSync, ///< the host does not wait
    /// A kernel is on a stream of its own, which others wait for as soon as
    /// they use what it is known to read or write: not its temporaries.
    strayKernel
  };
  Kind kind = Kind::none;
  uint64_t number = 0; ///< of the waits, syncs or kernels, from 1
};

/// Who puts work on a device, and what he calls the bytes that he names.
struct Issuer {
  struct Named {
    const char *begin;
    size_t bytes;
    std::string name;
  };
  std::string what;
  std::vector<Named> values;
};

/// What several ranks' streams are on. Any thread may call any function.
class SimulatedDevice {
public:
  explicit SimulatedDevice(bool isLate)
      : SimulatedDevice(
            Lateness{isLate ? Lateness::Kind::most : Lateness::Kind::none}) {}
  explicit SimulatedDevice(Lateness lateness);
  ~SimulatedDevice();

  StreamHandle createStream(const std::string &name = "a stream");
  /// Whether the stream is the device's. Asks for no lock.
  bool has(StreamHandle stream) const;
  EventHandle createEvent();
  /// `isReady`, if given, is asked when the work's turn has come: until then
  /// the stream waits for what is not on this device.
  void put(StreamHandle stream, std::function<void()> work,
           std::vector<ByteUse> uses = {},
           std::function<bool()> isReady = nullptr);
  /// The same of a kernel, which works in `scratch` as well.
  void putKernel(StreamHandle stream, std::function<void()> work,
                 std::vector<ByteUse> uses, std::vector<ByteUse> scratch);
  void record(EventHandle event, StreamHandle stream);
  void wait(StreamHandle stream, EventHandle event);
  bool query(EventHandle event);
  /// The host waits for the event.
  void synchronize(EventHandle event);
  /// Does what is on the stream, and of others what it waits for; the host
  /// waits for that. Throws std::logic_error if streams wait for each other.
  void synchronize(StreamHandle stream);
  void synchronizeAll();
  /// What is still to be done is not.
  void drop() noexcept;
  /// From now on work is done by the calling thread alone, whose memory it is:
  /// others that ask see what was done by then.
  void keepToThisThread() { owner = std::this_thread::get_id(); }
  /// The host waits for something else meanwhile: works are done that can be.
  /// False: there was none.
  bool goOn();
  size_t eventCount() const { return events.size(); }

  //===--------------------------------------------------------------------===//
  // The host
  //===--------------------------------------------------------------------===//

  /// All threads count as one from now on: their locks order what they do.
  void joinThreads() { isOneHost = true; }
  /// Of the calling thread, for people.
  void nameHost(const std::string &name);
  /// The calling thread comes after all that did this with the same `meeting`.
  void meet(const void *meeting);
  void hostUses(const ByteUse &use);

  /// New memory of that name. `isPinned`: the host's, which the device reaches.
  void addMemory(const void *begin, size_t bytes, const std::string &name,
                 bool isPinned = false);
  void removeMemory(const void *begin);
  bool isPinned(const void *begin) const;

  /// On whose behalf the calling thread puts work; null: nobody's.
  static const Issuer *&issuer();
  /// The device that the calling thread is on, as CUDA's; null: none.
  static SimulatedDevice *&used();
  /// Whether all of that is in one memory that was added, or in something that
  /// the issuer names.
  bool reaches(const void *begin, size_t bytes) const;
  /// Where the calling thread's kernels go, as LibTorch's current stream.
  static StreamHandle &current();
  /// "all_gather of layers.0, of %4" for bytes that the issuer names, or else
  /// where they are.
  std::string describe(const void *begin) const;

  //===--------------------------------------------------------------------===//
  // Graphs
  //===--------------------------------------------------------------------===//

  /// Works that were captured.
  struct Graph;
  void beginCapture(StreamHandle stream);
  /// Throws fsdp::Error (DeviceFailed) as CUDA would fail.
  std::shared_ptr<Graph> endCapture();
  /// Puts all of it on the stream that was captured first.
  void launch(Graph &graph);
  uint64_t launchCount() const { return launches; }
  size_t sizeOf(const Graph &graph) const;
  bool isCapturing(StreamHandle stream) const;
  /// Whether a capture has begun.
  bool isCapturing() const;

  std::vector<std::string> races() const;
  uint64_t compared() const;

  void plant(PlantedFault planted) { fault = planted; }
  /// To be called before all else by those who ask for these two.
  void keepOrder() { order.keep(); }
  /// Of how many waits of streams and of the host is what, by whom they let
  /// wait for whom: "stream upload waits for stream compute".
  std::map<WaitNeed, std::map<std::string, uint64_t>> judgeWaits() const;
  /// Of the wait that went wrong, if there is one.
  std::optional<WaitNeed> judgePlanted() const;
  /// Of streams for events, and of the host.
  uint64_t waitCount() const { return waits; }
  uint64_t syncCount() const { return syncs; }
  /// Of kernels that have temporaries.
  uint64_t kernelCount() const { return kernels; }

private:
  struct Work {
    std::function<void()> run;               ///< or
    EventHandle event = nullptr;             ///< one that passes, or
    EventHandle before = nullptr;            ///< one that has to pass first
    uint64_t generation = 0;                 ///< of the event
    StreamHandle on = nullptr;               ///< where it passes
    std::function<bool()> isReady = nullptr; ///< null: it is
  };
  struct Event {
    uint64_t recorded = 0, passed = 0;
    StreamHandle stream = nullptr;
    CheckedOrder::Known known, knownBefore;
    uint64_t capture = 0; ///< that it was recorded in, from 1; 0: none
  };
  struct Stream {
    std::string name;
    CheckedOrder::Actor actor;
    std::deque<Work> queue;
    bool isCaptured = false;
  };
  struct Block {
    size_t bytes;
    std::string name;
    bool isPinned;
  };

  void add(StreamHandle stream, Work work);
  bool advance(StreamHandle stream);
  bool isForeign() const;
  void passTime();
  void drain(StreamHandle stream, EventHandle until, uint64_t generation);
  void run(const Work &work);
  std::thread::id thread() const;
  CheckedOrder::Actor host();
  void follow(Stream &stream);
  void endStray();

  const Lateness lateness;
  const uintptr_t handles; ///< where those of the device begin
  uintptr_t next = 0;
  std::mt19937_64 random;
  mutable std::recursive_mutex mutex;
  std::map<StreamHandle, Stream> streams;
  std::map<EventHandle, Event> events;
  std::map<uintptr_t, Block> blocks;
  CheckedOrder order;
  std::map<std::thread::id, CheckedOrder::Actor> hosts;
  std::map<const void *, CheckedOrder::Known> meetings;
  bool isOneHost = false;
  std::thread::id owner;          ///< none: any thread's
  std::shared_ptr<Graph> capture; ///< null: none
  PlantedFault fault;
  uint64_t waits = 0, syncs = 0, kernels = 0;
  /// A kernel that strays, until its stream is waited for.
  struct Stray {
    StreamHandle from; ///< where it belongs
    EventHandle done;
    std::vector<ByteUse> uses;
  };
  std::optional<Stray> stray;
  uint64_t captures = 0, launches = 0;
  bool captureFailed = false;
  int depth = 0;
  bool isRunning = false;
};

/// Those of one rank.
class SimulatedStreams final : public Streams {
public:
  explicit SimulatedStreams(std::shared_ptr<SimulatedDevice> device,
                            const std::string &owner = "");

  int device() const override { return 0; }
  std::string place() const override { return "simulated" + owner; }
  void use() override { SimulatedDevice::used() = simulated.get(); }
  size_t freeMemory() override { return 0; }
  StreamHandle compute() const override { return computeStream; }
  StreamHandle createStream(StreamPriority, std::string_view name) override {
    return simulated->createStream(std::string(name) + owner);
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
    simulated->synchronize(event);
    return true;
  }
  bool isDone(StreamHandle stream) override {
    // Whoever asks lets time pass.
    simulated->synchronize(stream);
    return true;
  }
  void copy(void *to, const void *from, size_t bytes,
            StreamHandle stream) override;
  void upload(void *to, const void *from, size_t bytes,
              StreamHandle stream) override;
  void download(void *to, const void *from, size_t bytes,
                StreamHandle stream) override;
  void fill(void *to, unsigned char byte, size_t bytes,
            StreamHandle stream) override;
  void divide(void *data, size_t elements, plan::DType dtype, double divisor,
              StreamHandle stream) override;
  CounterHandle createCounter() override;
  void destroyCounter(CounterHandle counter) noexcept override;
  void raise(CounterHandle counter, StreamHandle stream) override;
  uint64_t read(CounterHandle counter) noexcept override;
  bool isCapturing(StreamHandle stream) override {
    return simulated->isCapturing(stream);
  }

  /// Work of the rank's own.
  void put(std::function<void()> work) {
    simulated->put(computeStream, std::move(work));
  }
  void finish() { simulated->synchronize(computeStream); }

private:
  const std::shared_ptr<SimulatedDevice> simulated;
  const std::string owner;
  const StreamHandle computeStream;
};

/// `reduceRows` as work on such a stream.
std::function<void(std::span<const void *const>, std::span<void *const>, size_t,
                   plan::DType, const Combination &, StreamHandle)>
makeSimulatedReduce(std::shared_ptr<SimulatedDevice> device);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_SIMULATEDSTREAMS_H
