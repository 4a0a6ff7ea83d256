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

#include "runtime/comm/Meeting.h"
#include "runtime/comm/Transfer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

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

/// Connects all ranks of one run: a meeting, and who makes communicators. One
/// object a rank.
class Fabric {
public:
  explicit Fabric(std::shared_ptr<Meeting> meeting)
      : ranks(std::move(meeting)) {}
  virtual ~Fabric() = default;

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

  /// Throws fsdp::Error if a transfer of this rank failed or is past its
  /// deadline. For a rank that waits for its device by other means than this
  /// interface: transfers that never end never let the device end. Any thread.
  virtual void check() {}

  /// What this rank's last transfers were, and where it is; null: nobody writes
  /// it down.
  virtual FlightRing *flights() const { return nullptr; }

  /// Memory for an arena of `bytes` in which the back end's transfers go
  /// faster, because it was registered with all ranks; null where there is
  /// none, and any memory does. Collective over the world, before or after
  /// communicators are made, at most once; they end before it is given back.
  virtual std::shared_ptr<void> allocateArena(size_t) { return nullptr; }

  // The meeting's, whose exchanges are written down where transfers are.
  const std::shared_ptr<Meeting> &meeting() const { return ranks; }
  int rank() const { return ranks->rank(); }
  int worldSize() const { return ranks->worldSize(); }
  std::vector<std::string> exchange(const std::string &key,
                                    const std::string &value);
  void requestStop(uint64_t rounds) { ranks->requestStop(rounds); }
  std::optional<uint64_t> stopAfter() const noexcept {
    return ranks->stopAfter();
  }
  /// And ends this rank's transfers.
  void abort(const std::string &reason) noexcept {
    ranks->abort(reason);
    endTransfers(reason);
  }

  /// Part of `abort`: those that the meeting does not end.
  virtual void endTransfers(const std::string &) noexcept {}

private:
  const std::shared_ptr<Meeting> ranks;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_COMMUNICATOR_H
