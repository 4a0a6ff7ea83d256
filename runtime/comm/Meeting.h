//===- Meeting.h - What ranks tell each other -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_MEETING_H
#define FSDP_RUNTIME_COMM_MEETING_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

class FlightGroup;

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

/// The ranks of one run, beside their transfers: values that they leave for
/// each other, the end of the run, and the reason for which one failed. One
/// object a rank. Throws fsdp::Error where a peer failed or did not come in
/// time.
class Meeting {
public:
  virtual ~Meeting() = default;

  virtual int rank() const = 0;
  virtual int worldSize() const = 0;

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

  /// `call` is called once, from a thread of the meeting's, when a rank that is
  /// another process fails, or at once if one already did, unless what is
  /// returned has ended by then. It may not call the meeting, and does not
  /// wait.
  virtual std::shared_ptr<void> onFailure(std::function<void()>) {
    return nullptr;
  }

  /// Tells the peers that this rank fails, so that their calls throw at once
  /// rather than at the deadline. Never throws.
  virtual void abort(const std::string &reason) noexcept = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_MEETING_H
