//===- PlannedAllocator.h - Operators write where the plan says -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's operators allocate their results themselves. The allocator that
// stands here, once installed in LibTorch's CPU slot, gives a planned address
// to the k-th request of a call, where k was observed in the call's first run;
// all other requests (operators' temporaries) go to the heap and are measured.
// Threads without a `RankMemory` are not affected.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_PLANNEDALLOCATOR_H
#define FSDP_RUNTIME_PLANNEDALLOCATOR_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fsdp {

/// Where one request of a call is to be served.
struct AllocationSlot {
  void *address = nullptr; ///< null: from the heap
  size_t room = 0;         ///< a larger request goes to the heap
};

/// One request that a call made while it was observed.
struct ObservedRequest {
  void *pointer;
  size_t bytes;
};

/// The allocator's view of one rank. Used by the rank's thread alone.
class RankMemory {
public:
  /// Serves the calling thread from here until destroyed.
  class Current {
  public:
    explicit Current(RankMemory &memory);
    ~Current();
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;

  private:
    RankMemory *previous;
  };

  /// A call whose requests are recorded and served from the heap.
  class Observation {
  public:
    explicit Observation(RankMemory &memory);
    ~Observation();
    Observation(const Observation &) = delete;
    Observation &operator=(const Observation &) = delete;

    /// In the order of the requests.
    std::span<const ObservedRequest> requests() const {
      return memory.requests;
    }
    /// Adds to the measured scratch all requests but those in `isPlanned`.
    void measure(const std::vector<bool> &isPlanned);

  private:
    RankMemory &memory;
  };

  /// A call whose k-th request gets slots[k].
  class Replay {
  public:
    Replay(RankMemory &memory, std::span<const AllocationSlot> slots);
    ~Replay();
    Replay(const Replay &) = delete;
    Replay &operator=(const Replay &) = delete;

  private:
    RankMemory &memory;
  };

  /// Most heap bytes that the calls of this rank held at once.
  size_t scratchPeak() const { return static_cast<size_t>(peak); }

private:
  friend class PlannedAllocator;
  enum class Mode { off, observe, replay };
  struct Event {
    size_t request;
    bool isRelease;
  };

  Mode mode = Mode::off;
  std::span<const AllocationSlot> slots;
  size_t next = 0;
  std::vector<ObservedRequest> requests;
  std::vector<Event> events;
  int64_t current = 0, peak = 0;
};

/// Puts the allocator into LibTorch's CPU slot, above the one that is there.
/// Takes effect once in a process; it stays, because storages keep its address.
void installPlannedAllocator();

} // namespace fsdp

#endif // FSDP_RUNTIME_PLANNEDALLOCATOR_H
