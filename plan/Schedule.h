//===- Schedule.h - Learning rates over time --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rate of step s (from 0) is the base's rate b times a factor, as
// transformers' get_scheduler defines it. With W steps of warm-up, T steps in
// total and p = (s - W) / max(1, T - W) it is s / max(1, W) where s < W, and
// m + (1 - m) left(p) from there on, with the row's `left` (Schedules.def) and
// m = min_lr / b. From step T on p stays 1, where transformers' cosine would
// rise again.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_SCHEDULE_H
#define FSDP_PLAN_SCHEDULE_H

#include "plan/plan_generated.h"
#include "support/Schedules.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fsdp {

/// Of a plan that was verified.
inline ScheduleKind kindOf(const plan::ScheduleT &schedule) {
  return ScheduleKind(schedule.kind);
}

/// What is wrong with a schedule called `name` ("'min_lr' has no meaning for
/// constant"), or nothing. `lr` is the base's rate.
std::optional<std::string> checkSchedule(std::string_view name,
                                         const plan::ScheduleT &schedule,
                                         double lr);

/// Reads "cosine:warmup=100,total=1000,min=1e-5"; `warmup_ratio` may stand for
/// `warmup`. Throws std::invalid_argument: what was expected, what was found.
plan::ScheduleT parseSchedule(std::string_view text, double lr);

/// "cosine, warm-up 100, total 1000, min_lr 1e-05"
std::string describeSchedule(const plan::ScheduleT &schedule);

/// A schedule with all its numbers.
class RateSchedule {
public:
  /// `steps` of the run stand for a total that is not given. Throws
  /// std::invalid_argument if that is needed and 0.
  RateSchedule(const plan::ScheduleT &schedule, double lr, uint64_t steps);

  /// What all rates are multiplied by in `step`.
  double getFactor(uint64_t step) const;

private:
  ScheduleKind kind;
  uint64_t warmup = 0, total = 0;
  double minRatio = 0;
};

} // namespace fsdp

#endif // FSDP_PLAN_SCHEDULE_H
