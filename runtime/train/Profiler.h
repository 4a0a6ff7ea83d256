//===- Profiler.h - fsdp-run --profile --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_PROFILER_H
#define FSDP_RUNTIME_TRAIN_PROFILER_H

#include "runtime/profile/Collect.h"
#include "runtime/profile/Recorder.h"
#include "runtime/session/Session.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

struct Activity;

/// Which steps of a run are profiled: count of them, from first on.
struct ProfileSteps {
  uint64_t first = 0, count = 0;
};

/// What FIRST:COUNT says, of a run of `steps`. Empty: up to five, after up to
/// three that warm up. Throws fsdp::Error (BadUsage) that
/// says what was expected.
ProfileSteps parseProfileSteps(const std::string &text, uint64_t steps);

/// Records some steps of a run and writes the trace when they are over.
/// Collective: all ranks make one and call the same methods.
class Profiler {
public:
  /// Makes room for all records. `session` outlives it. Throws fsdp::Error
  /// (BadUsage) if they would be too many, and as Session::activities.
  Profiler(Session &session, const std::string &path, ProfileSteps steps);
  ~Profiler();
  Profiler(const Profiler &) = delete;
  Profiler &operator=(const Profiler &) = delete;

  /// Before the first micro-batch of step `number`.
  void beginStep(uint64_t number);
  /// After its last one; the times are those of the metrics.
  void endStep(uint64_t number, std::chrono::steady_clock::time_point begin,
               std::chrono::steady_clock::time_point end);
  /// Collective, when all else that follows a step is done: after the last
  /// profiled one, rank 0 writes the trace. Returns whether it was that one.
  /// Throws fsdp::Error.
  bool finishStep(uint64_t number);

  /// On rank 0, once the trace is written; empty elsewhere.
  const std::string &summary() const { return text; }

private:
  bool isProfiled(uint64_t number) const {
    return number >= steps.first && number - steps.first < steps.count;
  }
  /// A device that lists slows its work down: just before the first step.
  void list();
  void stopListing();
  RankProfile own(const std::vector<std::vector<Activity>> &words);
  void write();

  Session &session;
  const std::string path;
  const ProfileSteps steps;
  std::optional<ProfileRecorder> recorder; ///< until the trace is written
  DeviceActivities *const device;          ///< null: the host runs all
  bool isListing = false;
  std::string text;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_PROFILER_H
