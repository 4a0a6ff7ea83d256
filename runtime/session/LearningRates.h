//===- LearningRates.h - The rates of each step -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_SESSION_LEARNINGRATES_H
#define FSDP_RUNTIME_SESSION_LEARNINGRATES_H

#include "plan/Schedule.h"
#include "plan/plan_generated.h"
#include "runtime/device/Arenas.h"
#include "runtime/session/Session.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// The states of an artifact that are learning rates. Programs read them, this
/// writes them: by the artifact's schedule, or by what the run says.
class LearningRates {
public:
  /// Throws fsdp::Error (BadUsage).
  LearningRates(const plan::PlanT &plan, const Arenas &arenas,
                const SessionOptions &options);

  /// Gives all rates their values of `step`; returns the base's as it is
  /// printed, or nothing if the artifact has none.
  std::optional<double> set(uint64_t step) const;

  /// The base's rate before any schedule, and the schedule in words.
  std::pair<double, std::string> describe() const;

private:
  struct Rate {
    const plan::StateT *state;
    double first; ///< factor 1
  };

  const Arenas arenas;
  std::vector<Rate> rates; ///< the base's first
  std::optional<RateSchedule> schedule;
  std::string description = "constant";
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_LEARNINGRATES_H
