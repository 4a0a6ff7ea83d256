//===- Peers.h - The other ranks, beside the transfers ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_PEERS_H
#define FSDP_RUNTIME_COMM_PEERS_H

#include "runtime/comm/Meeting.h"
#include "support/Error.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// The meeting of ranks that are processes, in values that they leave for each
/// other. Calls may come from any thread, but for `nextKey`.
class Peers : public Meeting {
public:
  /// How long a call waits for a peer.
  virtual std::chrono::milliseconds deadline() const = 0;

  /// Leaves `value` below `key` and returns what all of `ranks` left, by place
  /// in `ranks`. Throws fsdp::Error: `late` with the ranks that left none by
  /// the deadline, or PeerFailed; both say `what` this was for.
  virtual std::vector<std::string> gather(const std::string &key,
                                          const std::string &value,
                                          const std::vector<int> &ranks,
                                          ErrorId late,
                                          const std::string &what) = 0;

  /// The same, of those that left a value within `time`. Never throws.
  virtual std::vector<std::optional<std::string>>
  survey(const std::string &key, const std::string &value,
         const std::vector<int> &ranks,
         std::chrono::milliseconds time) noexcept = 0;

  /// Tells all ranks why this one fails; returns the reason of the first that
  /// did.
  virtual std::string publish(const std::string &reason) = 0;
  /// That reason; empty if none failed.
  virtual std::optional<std::string> failure() = 0;
  /// `interrupt` is called once, from a thread of its own, when a rank fails,
  /// or at once if one already did. It may not call this object.
  virtual int add(std::function<void()> interrupt) = 0;
  /// Afterwards it is not running and will not be called.
  virtual void remove(int handle) = 0;

  /// Asks all ranks to stop after `rounds`, unless one did before. Each that
  /// has heard of it leaves a value below kStopHeard.
  virtual void publishStop(uint64_t rounds) = 0;
  void requestStop(uint64_t rounds) final;

  std::vector<std::string> exchange(const std::string &key,
                                    const std::string &value) final;
  /// What is returned ends before this object does.
  std::shared_ptr<void> onFailure(std::function<void()> call) final;
  void abort(const std::string &reason) noexcept final;
  /// Keys of the next communicator of `group` begin with it: the same on all of
  /// the group's ranks.
  std::string nextKey(const GroupRanks &group);

private:
  std::map<std::string, int> keys; ///< how often each was asked for
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PEERS_H
