//===- Transfers.h - The communicators of a plan ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_TRANSFERS_H
#define FSDP_RUNTIME_EXEC_TRANSFERS_H

#include "plan/plan_generated.h"
#include "runtime/comm/Counted.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace fsdp {

/// Place of `rank` in the group it belongs to.
int groupPosition(const plan::GroupT &group, int rank);

/// The global ranks of the group that `rank` belongs to, ascending.
std::vector<int> groupRanks(const plan::GroupT &group, int rank);

/// One communicator for each (group, stream) that the plan's programs use.
class Transfers {
public:
  /// Collective: every rank makes them in the same order.
  Transfers(const plan::PlanT &plan, Fabric &fabric);

  Communicator &get(uint32_t group, plan::Stream stream) const;

  /// Of the rank; null: nobody writes down where it is.
  FlightRing *flights() const { return ring; }

  /// Bytes that the back end holds beside the arena.
  size_t stagingBytes() const;

  /// What was started since the last reset, by the group's name and the kind of
  /// collective.
  std::map<std::pair<std::string, std::string_view>, Traffic> traffic() const;
  void resetTraffic();

  /// Seconds in which waits held the rank's thread since the last reset.
  double secondsWaited() const;

  /// The same by communicator, to be taken back or to be repeated.
  using Counts = std::vector<std::map<std::string_view, Traffic>>;
  Counts counts() const;
  void setCounts(const Counts &counts) const;
  void addCounts(const Counts &counts) const;
  static Counts difference(const Counts &after, const Counts &before);

  /// What was captured is in a graph, which is about to be launched for `step`,
  /// by communicator (Communicator).
  using Captured = std::vector<uint64_t>;
  Captured keepCaptured() const;
  void launchCaptured(const Captured &graph, uint64_t step) const;

  /// As if nothing had been started that was not waited for (Communicator).
  void abandon() const;

private:
  const plan::PlanT &plan;
  FlightRing *const ring;
  std::map<std::pair<uint32_t, plan::Stream>,
           std::unique_ptr<CountedCommunicator>>
      communicators;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_TRANSFERS_H
