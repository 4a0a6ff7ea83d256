//===- Summary.h - Where the time of a profile went -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_PROFILE_SUMMARY_H
#define FSDP_RUNTIME_PROFILE_SUMMARY_H

#include "runtime/profile/Collect.h"
#include "runtime/profile/RecordedTransfers.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// Where one rank's time went, in nanoseconds over all profiled steps: step is
/// the sum of all others.
struct TimeShares {
  int64_t step = 0;
  int64_t compute = 0; ///< in kernels
  int64_t exposed = 0; ///< in waits for transfers
  int64_t starts = 0;  ///< in starting them
  int64_t inputs = 0;  ///< in bringing in the inputs
  int64_t other = 0;   ///< between these, and between programs
};

/// One operator on all ranks, over all profiled steps.
struct OperatorTime {
  std::string name;
  uint64_t calls = 0;
  int64_t time = 0; ///< nanoseconds
};

/// Transfers of one kind, on all ranks, over all profiled steps.
struct TransferTime {
  uint64_t calls = 0, bytes = 0;
  int64_t inFlight = 0; ///< nanoseconds from starts to the ends of waits
  int64_t exposed = 0;  ///< those of them in waits
  int64_t moving = 0;   ///< on a device: in which it moved
};

struct ProfileSummary {
  bool isOnDevice = false;
  std::vector<uint64_t> steps; ///< their numbers
  std::vector<TimeShares> ranks;
  std::vector<OperatorTime> operators; ///< the most expensive first
  /// By bucket, and by kind ("all_gather"); buckets in the order in which they
  /// first come.
  std::vector<std::pair<std::string, std::map<std::string, TransferTime>>>
      buckets;
};

/// `activities` by program. `profiles` of all ranks, by rank.
ProfileSummary
summarizeProfile(const std::vector<std::vector<Activity>> &activities,
                 const std::vector<RankProfile> &profiles);

/// Tables for a terminal, per step: ranks, the operators that took most of the
/// time, and the buckets with most time in waits.
std::string printSummary(const ProfileSummary &summary);

} // namespace fsdp

#endif // FSDP_RUNTIME_PROFILE_SUMMARY_H
