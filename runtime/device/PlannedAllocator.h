//===- PlannedAllocator.h - Operators write where the plan says -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's operators allocate their results and temporaries themselves. The
// allocator that stands here, once installed in LibTorch's CPU slot, serves the
// k-th request of a call from where the k-th one was seen to belong when the
// call was rehearsed: a result from its planned address, a temporary from the
// rank's scratch region. Whatever else is asked for in a step comes from the
// heap and is counted. Threads without a `RankMemory` are not affected. On a
// device, cuda/DeviceAllocator.h stands in LibTorch's slot for it and follows
// the same rules.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_DEVICE_PLANNEDALLOCATOR_H
#define FSDP_RUNTIME_DEVICE_PLANNEDALLOCATOR_H

#include "runtime/device/FirstFit.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace fsdp {

/// Where one request of a call is to be served. A larger request than `room`
/// goes to the heap.
struct AllocationSlot {
  void *address = nullptr; ///< null: in the scratch region
  size_t room = 0;         ///< bytes; 0: from the heap
  size_t offset = 0;       ///< in the scratch region
  size_t asked = 0;        ///< bytes that were observed; 0: any that fit
};

/// One request that a call made while it was observed.
struct ObservedRequest {
  void *pointer;
  size_t bytes;
};

/// The allocator's view of one rank. Used by one thread at a time.
class RankMemory {
public:
  /// Whose requests it is about: those for the host's memory, or a device's.
  enum class Kind { host, device };

  using Bytes = std::span<char>;

  explicit RankMemory(Kind kind = Kind::host) : kind(kind) {}
  bool isHost() const { return kind == Kind::host; }

  /// Serves the calling thread from here until destroyed.
  class Current {
  public:
    explicit Current(RankMemory &memory);
    ~Current();
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;

  private:
    RankMemory *&slot;
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
    /// Gives each slot without an address its place in the scratch region, such
    /// that requests which were held at the same time lie apart. One slot for
    /// each request; to be called when the call holds nothing any more.
    /// What was borrowed must have been given back: else throws fsdp::Error
    /// (OutOfMemory).
    void placeTemporaries(std::vector<AllocationSlot> &slots) const;

  private:
    void endLoan() const;

    RankMemory &memory;
  };

  /// A call whose k-th request gets slots[k]. A request that was not observed
  /// gets one of `spares` that is for exactly as many bytes, and that no other
  /// has got.
  class Replay {
  public:
    Replay(RankMemory &memory, std::span<const AllocationSlot> slots,
           std::span<const AllocationSlot> spares = {});
    ~Replay();
    Replay(const Replay &) = delete;
    Replay &operator=(const Replay &) = delete;

    /// Whether the call asked for what it was observed to ask for.
    bool isAsObserved() const {
      return memory.next == memory.slots.size() && !memory.hasMissed;
    }

  private:
    RankMemory &memory;
  };

  /// A call whose requests, in whichever order and of whichever sizes, are
  /// served from `region` as long as there is room.
  class Pool {
  public:
    Pool(RankMemory &memory, Bytes region);
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

  private:
    RankMemory &memory;
  };

  /// Lends memory to the calls that are observed from here until destroyed:
  /// in rehearsals an arena holds nothing yet.
  class Loan {
  public:
    /// `find`, which is called only if something is to be borrowed, says which
    /// memory no operand or result lies in; `clean` gets each part of it that
    /// was borrowed, once the call is over.
    Loan(RankMemory &memory, std::function<std::vector<Bytes>()> find,
         std::function<void(Bytes)> clean);
    ~Loan();
    Loan(const Loan &) = delete;
    Loan &operator=(const Loan &) = delete;

  private:
    RankMemory &memory;
  };

  /// Bytes of the scratch region that the calls observed so far need.
  size_t scratchNeeded() const { return needed; }
  /// Where the slot's request is served in the scratch region; empty: it is
  /// elsewhere.
  Bytes scratchOf(const AllocationSlot &slot) const {
    if (slot.address || slot.room == 0 ||
        slot.offset + slot.room > scratchBytes)
      return {};
    return {scratch + slot.offset, slot.room};
  }
  /// The scratch region from now on; outlives the rank's calls. Ends the
  /// rehearsal: what calls that are observed later take from the heap counts.
  void setScratch(char *begin, size_t bytes) {
    scratch = begin;
    scratchBytes = bytes;
    isSealed = true;
    beforeSeal = workers->load();
  }

  /// Called by the rank's thread, which no plan serves then: counts what its
  /// threads of LibTorch's pool ask for from now on. They have no plan of
  /// their own.
  void countWorkers();

  /// Bytes of tensor data that were asked for outside of rehearsals and came
  /// neither from the plan nor from the scratch region; all of them so far.
  uint64_t missedBytes() const {
    return missed + (isSealed ? workers->load() - beforeSeal : 0);
  }
  /// Most such bytes that were held at once.
  size_t missedPeak() const { return static_cast<size_t>(peak); }

  // For allocators, which serve a thread's requests by its RankMemory:

  /// The calling thread's; null: none.
  static RankMemory *current(Kind kind) { return slotOf(kind); }

  /// Where a request of the running call belongs; null: the allocator takes the
  /// memory from elsewhere and says so to `noteElsewhere`.
  void *place(size_t bytes) {
    if (mode == Mode::pool)
      return pool.take({&poolRegion, 1}, bytes, alignment());
    if (mode != Mode::replay)
      return nullptr;
    if (next < slots.size()) {
      const AllocationSlot &slot = slots[next];
      // One that was not observed does not shift those behind it, whose places
      // are only apart as long as they come in their order.
      if (slot.asked != 0 && slot.asked != bytes)
        return placeSpare(bytes);
      ++next;
      if (bytes <= slot.room) {
        if (slot.address)
          return slot.address;
        if (slot.offset + slot.room <= scratchBytes)
          return scratch + slot.offset;
      }
    } else {
      if (void *address = placeSpare(bytes))
        return address;
      ++next;
    }
    hasMissed = true;
    return nullptr;
  }
  /// Whether the running call's requests are recorded.
  bool isObserving() const { return mode == Mode::observe; }
  /// `taken` is what the memory really takes.
  void noteElsewhere(void *pointer, size_t bytes, size_t taken);
  /// Memory from elsewhere is given back.
  void noteRelease(void *pointer, size_t taken);

  /// For a request of a call that is observed, where the device has nothing
  /// left: memory that is lent for it; null if there is not as much.
  void *borrow(size_t bytes);
  /// An arena's memory is given back, which counts if it was borrowed, or is a
  /// pool's.
  void noteReturn(void *pointer) {
    if (mode == Mode::pool)
      pool.giveBack(pointer);
    else if (mode == Mode::observe && borrowed.giveBack(pointer))
      noteRelease(pointer, 0);
  }

  /// A request of the calling thread, which has no RankMemory.
  static void noteByWorker(size_t bytes);

private:
  static RankMemory *&slotOf(Kind kind);
  size_t alignment() const;
  enum class Mode { off, observe, replay, pool };
  struct Event {
    size_t request;
    bool isRelease;
  };

  const Kind kind;
  Mode mode = Mode::off;
  /// Sets `hasMissed` where there is none.
  void *placeSpare(size_t bytes);

  std::span<const AllocationSlot> slots, spares;
  std::vector<bool> sparesTaken;
  size_t next = 0;
  char *scratch = nullptr;
  size_t scratchBytes = 0;
  size_t needed = 0;
  bool isSealed = false;
  bool hasMissed = false; ///< in this replay
  std::vector<ObservedRequest> requests;
  std::vector<Event> events;
  std::function<std::vector<Bytes>()> findLent;
  std::function<void(Bytes)> cleanLent;
  std::optional<std::vector<Bytes>> lent; ///< to the call that is observed
  FirstFit borrowed;                      ///< of it
  std::vector<Bytes> everBorrowed;        ///< by the call
  FirstFit pool;
  Bytes poolRegion;
  uint64_t missed = 0;
  /// Bytes that worker threads asked for; theirs too, who may live longer.
  using Count = std::atomic<uint64_t>;
  const std::shared_ptr<Count> workers = std::make_shared<Count>(0);
  uint64_t beforeSeal = 0;
  int64_t held = 0, peak = 0;
};

/// Puts the allocator into LibTorch's CPU slot, above the one that is there.
/// Takes effect once in a process; it stays, because storages keep its address.
void installPlannedAllocator();

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_PLANNEDALLOCATOR_H
