//===- Communicator.h - Transfers between ranks -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a back end provides. A `Fabric` connects the ranks of one run; it makes
// one `Communicator` for each (group, stream) pair, so that gathers and
// reductions on the same ranks never queue behind each other.
//
// A start call returns at once. From then on until `wait`, the memory that it
// names belongs to the transfer: sources may not be written, destinations not
// read. Work that was issued before a start comes before the transfer, work
// that is issued after its `wait` comes behind it. On the host, work is issued
// when it is done, so a wait blocks. On a device, work is issued to the compute
// stream (cuda/Streams.h), and no call blocks for a peer: a wait puts an order
// on the stream. Every rank of a group makes the same calls in the same order.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_COMMUNICATOR_H
#define FSDP_RUNTIME_COMM_COMMUNICATOR_H

#include "plan/plan_generated.h"
#include "runtime/comm/Transfer.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

class FlightGroup;
class FlightRing;
class Streams;

/// Transfers among the ranks of one group, on one stream. Used by one thread.
/// All calls throw fsdp::Error (exit status 3) when a peer failed or did not
/// come within the deadline; the message names rank, collective, bucket, step.
/// Where calls do not block, that may be a later call than the transfer's own,
/// of any communicator of the fabric, or `Fabric::check`.
class Communicator {
public:
  using Ticket = uint64_t;

  /// Ends transfers that are in flight, which fails the peers: afterwards none
  /// of them touches this rank's memory, which therefore must live as long.
  virtual ~Communicator() = default;

  /// This rank's place in the group, and the group's size.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Puts on a device what `start` will put there beside the transfer itself,
  /// over memory whose contents nobody needs, so that no kernel is loaded while
  /// transfers keep the device busy. Before the first start, of this rank
  /// alone.
  virtual void rehearse(const Transfer &) {}
  virtual Ticket start(const Transfer &transfer) = 0;

  /// What is issued from now on comes after the transfer is complete for this
  /// rank and no peer reads its memory any more. Each ticket is waited for
  /// exactly once.
  virtual void wait(Ticket ticket) = 0;

  /// Forgets what was started and not waited for, none of which a device did
  /// or will do: a capture failed. All ranks of the group alike.
  virtual void abandon() {}

  // Where steps are captured as a graph, which is launched in their place:

  /// What was started while it was captured, and not abandoned, is in a graph
  /// now. Returns a number for it, of this communicator's.
  virtual uint64_t keepCaptured() { return 0; }
  /// That graph is about to be launched as `step`. Throws as a start does. All
  /// ranks of the group alike.
  virtual void launchCaptured(uint64_t, uint64_t) {}

  /// Bytes of staging memory that the back end holds beside the arena.
  virtual size_t stagingBytes() const { return 0; }
};

/// The ranks that a group consists of, seen from one of them.
struct GroupRanks {
  std::string name;       ///< of the group, and of the stream
  std::vector<int> ranks; ///< global ranks, ascending
  /// Which of the plan's streams it is for.
  plan::Stream stream = plan::Stream::gather;
  /// Where a back end says what it knows of the group's transfers, as long as
  /// the fabric lives (comm/flights); null: nowhere.
  FlightGroup *flights = nullptr;
};

/// Connects all ranks of one run. One object a rank.
class Fabric {
public:
  virtual ~Fabric() = default;

  virtual int rank() const = 0;
  virtual int worldSize() const = 0;

  /// Collective over the ranks of `group`; `group.ranks` contains rank().
  virtual std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) = 0;

  /// One whose transfers are of the host's memory, for what is no part of a
  /// step.
  virtual std::unique_ptr<Communicator>
  createHostCommunicator(const GroupRanks &group) {
    return createCommunicator(group);
  }

  /// What the other communicators order their work against, whose transfers are
  /// of that device's memory; null: theirs are of the host's memory, too.
  virtual std::shared_ptr<Streams> streams() const { return nullptr; }

  /// Every rank gives `value` and gets all ranks' values, by rank. Collective
  /// over the world; `key` is the same on all ranks and used once. Several
  /// threads of a rank may each exchange values at a time, in any order.
  virtual std::vector<std::string> exchange(const std::string &key,
                                            const std::string &value) = 0;

  /// One object for all ranks of `group` that are threads of this process, made
  /// by the first to ask; null where every rank is a process of its own.
  /// Collective over the group, in the same order on all of its ranks.
  virtual std::shared_ptr<void>
  share(const GroupRanks &, const std::function<std::shared_ptr<void>()> &) {
    return nullptr;
  }

  // Ending early, together, for ranks that work in rounds (training steps) of
  // which none ends on any rank before it began on all.

  /// Called between two rounds, after `rounds` of them, by a rank that wants to
  /// end: on return `stopAfter` has a value, which each rank sees before the
  /// round in question ends. Throws fsdp::Error if a peer failed.
  virtual void requestStop(uint64_t rounds) = 0;
  /// The number of rounds after which all ranks end; empty: nobody wants to.
  virtual std::optional<uint64_t> stopAfter() const noexcept = 0;

  /// Throws fsdp::Error if a transfer of this rank failed or is past its
  /// deadline. For a rank that waits for its device by other means than this
  /// interface: transfers that never end never let the device end. Any thread.
  virtual void check() {}

  /// What this rank's last transfers were, and where it is; null: nobody writes
  /// it down.
  virtual FlightRing *flights() const { return nullptr; }

  /// `call` is called once, from a thread of the fabric's, when a rank that is
  /// another process fails, or at once if one already did, unless what is
  /// returned has ended by then. It may not call the fabric, and does not wait.
  virtual std::shared_ptr<void> onFailure(std::function<void()>) {
    return nullptr;
  }

  /// Memory for an arena of `bytes` in which the back end's transfers go
  /// faster, because it was registered with all ranks; null where there is
  /// none, and any memory does. Collective over the world, before or after
  /// communicators are made, at most once; they end before it is given back.
  virtual std::shared_ptr<void> allocateArena(size_t) { return nullptr; }

  /// Tells the peers that this rank fails, so that their calls throw at once
  /// rather than at the deadline, and ends its transfers. Never throws.
  virtual void abort(const std::string &reason) noexcept = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_COMMUNICATOR_H
