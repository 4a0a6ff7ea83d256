//===- Collect.h - The records of all ranks in one place --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_PROFILE_COLLECT_H
#define FSDP_RUNTIME_PROFILE_COLLECT_H

#include "runtime/comm/Communicator.h"
#include "runtime/profile/Recorder.h"

#include <string>
#include <vector>

namespace fsdp {

/// What one rank recorded, its times on rank 0's clock.
struct RankProfile {
  std::string host;
  /// Nanoseconds by which its times may be wrong against rank 0's; 0 where both
  /// read the same clock.
  int64_t clockUncertainty = 0;
  /// Whether times are those of a device.
  bool isOnDevice = false;
  /// Pieces of work that the device could not list.
  uint64_t lost = 0;
  std::vector<ProfileStep> steps;
  std::vector<ProfileRun> runs;
  std::vector<ProfileRecord> records;
  /// On a device: when transfers moved, by their starts, in the order of the
  /// records.
  std::vector<ProfileRecord> moves;
};

/// Of a rank whose host ran all.
RankProfile profileOf(const ProfileRecorder &recorder);

/// Collective: rank 0 gets those of all ranks, by rank, the others nothing.
/// `own` has this rank's times on its own clock, and no host yet. Records
/// travel in blocks through the run's back end. Once in a run. Throws
/// fsdp::Error.
std::vector<RankProfile> collectProfiles(RankProfile own, Fabric &fabric);

} // namespace fsdp

#endif // FSDP_RUNTIME_PROFILE_COLLECT_H
