//===- FlightRing.h - A rank's last transfers -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The flight recorder: the last collectives that a rank started, and the
// instruction that it is at, in memory that was there before. What is written
// down costs some stores and readings of the clock; nothing is allocated and no
// lock is taken. Any thread reads it while the rank goes on.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_FLIGHTRING_H
#define FSDP_RUNTIME_COMM_FLIGHTRING_H

#include "plan/Traffic.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

/// What ranks do together: a collective, or what is none.
enum class FlightKind : uint32_t {
  exchange,  ///< of values, among all ranks, by key
  connect,   ///< of a group's communicator
  collective ///< the first of them
};
constexpr FlightKind toFlight(CollectiveKind kind) {
  return static_cast<FlightKind>(static_cast<uint32_t>(FlightKind::collective) +
                                 static_cast<uint32_t>(kind));
}

/// "all_gather", "exchange", "connect".
const char *getName(FlightKind kind);
/// Empty: none has that name.
std::optional<FlightKind> findFlightKind(std::string_view name);

/// What is known of a collective when it is started. Times are nanoseconds of
/// the steady clock; 0: not yet.
struct FlightEntry {
  uint64_t number = 0;   ///< among all of the rank's
  uint64_t position = 0; ///< among the transfers of its group
  uint32_t group = kNoGroup;
  FlightKind kind = FlightKind::collective;
  uint64_t step = 0;
  uint32_t microBatch = 0;
  /// Of the plan, and of the program; -1: none.
  int32_t program = -1, instruction = -1;
  uint32_t bucketBytes = 0; ///< of `bucket`
  uint64_t bytes = 0;       ///< plan/Traffic.h
  int64_t issued = 0;       ///< when the rank started it
  int64_t waited = 0;       ///< when it began to wait for it
  /// When the wait was over, where that says that the transfer is.
  int64_t completed = 0;
  /// Cut off at its end; what an instruction moves, the plan names.
  std::array<char, 80> bucket{};

  static constexpr uint32_t kNoGroup = UINT32_MAX;

  void setBucket(std::string_view text);
  std::string_view bucketText() const { return {bucket.data(), bucketBytes}; }
};

/// One group of ranks on one stream, as one of its ranks sees it. The rank's
/// thread counts; a back end may say what it knows, from any thread.
class FlightGroup {
public:
  FlightGroup(uint32_t index, std::string name, std::vector<int> ranks,
              uint32_t ordinal)
      : index(index), ordinal(ordinal), name(std::move(name)),
        ranks(std::move(ranks)) {}

  const uint32_t index;
  const uint32_t ordinal; ///< of the groups of this name and these ranks
  const std::string name;
  const std::vector<int> ranks; ///< global, ascending

  /// The position of the next transfer.
  uint64_t takePositions(uint64_t count = 1) {
    return next.fetch_add(count, std::memory_order_relaxed);
  }
  uint64_t issued() const { return next.load(std::memory_order_relaxed); }

  /// Of a back end whose waits do not block: that it will call `setTurn`, and
  /// that a wait says nothing of a transfer's end.
  void reportTurns() { turns.store(true, std::memory_order_relaxed); }
  bool reportsTurns() const { return turns.load(std::memory_order_relaxed); }
  /// All transfers before `position` are over. `began`: when it was first seen
  /// that nothing of this rank is in the way of that one; 0: something is.
  void setTurn(uint64_t position, int64_t began) {
    turnBegan.store(began, std::memory_order_relaxed);
    turn.store(position, std::memory_order_release);
  }
  std::pair<uint64_t, int64_t> getTurn() const {
    uint64_t position = turn.load(std::memory_order_acquire);
    return {position, turnBegan.load(std::memory_order_relaxed)};
  }

  /// The global rank whose part the rank waits for; -1: none that is known.
  void setAwaited(int rank) { awaited.store(rank, std::memory_order_relaxed); }
  int getAwaited() const { return awaited.load(std::memory_order_relaxed); }

private:
  std::atomic<uint64_t> next{0}, turn{0};
  std::atomic<int64_t> turnBegan{0};
  std::atomic<int> awaited{-1};
  std::atomic<bool> turns{false};
};

/// Of one rank.
class FlightRing {
public:
  static constexpr size_t kCapacity = 1000;

  explicit FlightRing(int rank);

  static int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  int rank() const { return place; }

  /// It stays as long as the ring. All ranks of a group add theirs in the same
  /// order.
  FlightGroup &addGroup(const std::string &name, const std::vector<int> &ranks);

  /// Writes it down and returns its number, by which it is known from then on,
  /// for as long as it is one of the last. Any thread.
  uint64_t add(FlightEntry flight) noexcept;
  void setWaited(uint64_t number, int64_t time) noexcept;
  void setCompleted(uint64_t number, int64_t time) noexcept;

  /// Where the rank is, set by its thread. `instruction` by its number in the
  /// program.
  static uint64_t makePlace(uint32_t program, uint32_t instruction) {
    return uint64_t(program) << 32 | instruction;
  }
  static constexpr uint64_t kBetween = UINT64_MAX; ///< in no program
  /// Written by the rank with one relaxed store an instruction.
  std::atomic<uint64_t> &where() { return instruction; }
  void beginMicroBatch(uint64_t number, uint32_t microBatchNumber) {
    step.store(number, std::memory_order_relaxed);
    microBatch.store(microBatchNumber, std::memory_order_relaxed);
  }

  struct GroupSnapshot {
    const FlightGroup *group;
    uint64_t issued; ///< of what the snapshot knows
  };
  struct Snapshot {
    uint64_t recorded = 0; ///< collectives, also those that are gone
    uint64_t step = 0;
    uint32_t microBatch = 0;
    uint64_t where = kBetween;
    std::vector<FlightEntry> flights; ///< the last ones, by number
    std::vector<GroupSnapshot> groups;
  };
  /// Any thread, at any time.
  Snapshot snapshot() const;

  /// Whether an instruction of a program was among what was written down.
  bool hasBegun() const { return begun.load(std::memory_order_relaxed); }

private:
  static constexpr size_t kWords = sizeof(FlightEntry) / sizeof(uint64_t);

  /// A flight in words that are read and written one by one: a reader that met
  /// a writer sees another version at the end than at the beginning.
  struct Slot {
    std::atomic<uint64_t> version{0}; ///< odd: being written
    std::array<std::atomic<uint64_t>, kWords> words{};
    std::atomic<int64_t> waited{0}, completed{0};
  };

  /// Null if the flight is no longer there.
  Slot *find(uint64_t number) const noexcept;

  const int place;
  const std::unique_ptr<std::array<Slot, kCapacity>> slots;
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> instruction{kBetween}, step{0};
  std::atomic<uint32_t> microBatch{0};
  std::atomic<bool> begun{false};
  mutable std::mutex mutex;
  std::deque<FlightGroup> groups; ///< guarded; they stay where they are
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_FLIGHTRING_H
