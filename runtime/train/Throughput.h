//===- Throughput.h - What a step takes of the data -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_THROUGHPUT_H
#define FSDP_RUNTIME_TRAIN_THROUGHPUT_H

#include "runtime/session/Session.h"

#include <cstdint>
#include <optional>

namespace fsdp {

/// A step, as those see it who tell of it.
struct StepReport {
  const StepResult &result;
  double seconds;          ///< since the last step's end
  double samplesPerSecond; ///< in this step
  /// Where an input of numbers has rows of tokens, all of one length in the
  /// step's program; with padding.
  std::optional<double> tokensPerSecond;
  double secondsLeft; ///< at the mean rate of this run
  MemoryUse memory;
  /// The model's (fsdp-opt counts its products), of one rank a second; not
  /// known of a model without any.
  std::optional<double> flopsPerSecond = std::nullopt;
  /// Their share of what the rank's device can do, where that is known.
  std::optional<double> utilization = std::nullopt;

  uint64_t peakBytes() const {
    return memory.arena + memory.scratch + memory.staging;
  }
};

/// Reports of the steps of a run.
class Throughput {
public:
  /// `steps` of this run. `peakFlops`: that a rank's device can do a second; 0:
  /// unknown.
  Throughput(const Session &session, uint64_t steps, double peakFlops)
      : session(session), samples(session.samplesPerStep()), steps(steps),
        peakFlops(peakFlops) {}

  /// The next step took so many `seconds`. The result outlives the report.
  StepReport report(const StepResult &result, double seconds);

private:
  const Session &session;
  const int64_t samples; ///< of a step
  const uint64_t steps;
  const double peakFlops; ///< 0: unknown
  uint64_t made = 0;
  double total = 0; ///< seconds of those but the first, which warms up
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_THROUGHPUT_H
