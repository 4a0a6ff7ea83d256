//===- Schedule.h - Learning rates over time --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rate of step s (from 0) is the base's rate b times a factor, as
// transformers' get_scheduler defines it. With W steps of warm-up, T steps in
// total and p = (s - W) / max(1, T - W) it is the row's `grown` (Schedules.def)
// where s < W, and m + (1 - m) left(p) from there on, with the row's `left` and
// m = min_lr / b or min_lr_ratio. From step T on p stays 1, where transformers'
// cosine would rise again.
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

/// The number of that name, or what the kind has where it is not given; NaN if
/// it has none.
double getNumber(const plan::ScheduleT &schedule, ScheduleNumber number);
/// Whether the schedule says it itself.
bool isGiven(const plan::ScheduleT &schedule, ScheduleNumber number);
void setNumber(plan::ScheduleT &schedule, ScheduleNumber number, double value);
/// Gives the least rate of its kind to a schedule that names none.
void completeLeast(plan::ScheduleT &schedule, bool namesLeast);

/// What is wrong with a schedule called `name` ("'min_lr' has no meaning for
/// constant"), or nothing. `lr` is the base's rate.
std::optional<std::string> checkSchedule(std::string_view name,
                                         const plan::ScheduleT &schedule,
                                         double lr);

/// Reads "cosine:warmup=100,total=1000,min=1e-5"; `warmup_ratio` may stand for
/// `warmup`, `min_ratio` for `min`, and numbers of the schedule's own have
/// their names. Throws std::invalid_argument: what was expected, what was
/// found.
plan::ScheduleT parseSchedule(std::string_view text, double lr);

/// "cosine, warm-up 100, total 1000, min_lr 1e-05"
std::string describeSchedule(const plan::ScheduleT &schedule);

/// A schedule with all its numbers.
class RateSchedule {
public:
  /// `steps` of the run stand for a total that is not given. Throws
  /// std::invalid_argument if that is needed and 0, or too few.
  RateSchedule(const plan::ScheduleT &schedule, double lr, uint64_t steps);

  /// What all rates are multiplied by in `step`.
  double getFactor(uint64_t step) const;

private:
  const ScheduleFacts &facts;
  uint64_t warmup = 0, total = 0;
  ScheduleMoment begin; ///< with all but the step
};

} // namespace fsdp

#endif // FSDP_PLAN_SCHEDULE_H
