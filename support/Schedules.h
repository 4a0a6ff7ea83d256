//===- Schedules.h - Shapes of a learning rate over time --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows of Schedules.def: config, IR, plan and runtime know schedules by
// them alone.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_SCHEDULES_H
#define FSDP_SUPPORT_SCHEDULES_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// A plan holds it as its number.
enum class ScheduleKind : uint8_t {
#define FSDP_SCHEDULE(kind, ...) kind,
#include "support/Schedules.def"
};

enum class ScheduleNumber : uint8_t {
#define FSDP_SCHEDULE_NUMBER(name, ...) name,
#include "support/Schedules.def"
  count
};

/// How a rate goes from one number to another; a plan holds it as a number.
enum class ScheduleShape : uint8_t { linear, cosine, root };

enum class ScheduleRange : uint8_t {
  fromZero,
  ratio,
  steps,
  stepsFromOne,
  shape
};

/// What a number is, whichever schedule goes by it.
struct ScheduleNumberFacts {
  ScheduleNumber number;
  std::string_view name; ///< "num_cycles"
  ScheduleRange range;
  std::string_view text; ///< for people

  bool holds(double value) const;
  /// "a whole number from 1"
  std::string describe() const;
  /// As the config writes it: "1-sqrt" for a shape, else the number.
  std::string print(double value) const;
  /// Nothing if it is no such word or number, or out of range.
  std::optional<double> parse(std::string_view text) const;
};
std::span<const ScheduleNumberFacts> getScheduleNumbers();
const ScheduleNumberFacts &getFacts(ScheduleNumber number);
const ScheduleNumberFacts *findScheduleNumber(std::string_view name);

/// A number that is not given.
inline constexpr double kAbsentNumber =
    std::numeric_limits<double>::quiet_NaN();

/// One for each ScheduleNumber; NaN is none.
using ScheduleNumbers = std::array<double, size_t(ScheduleNumber::count)>;

/// A step of a run, from 0, and what its schedule goes by.
struct ScheduleMoment {
  double step = 0, warmup = 0, total = 0;
  double least = 0; ///< the least rate, as a part of the rate
  double p = 0;     ///< how much of the way behind the warm-up is gone, 0 to 1
  ScheduleNumbers numbers = {};

  double operator[](ScheduleNumber number) const {
    return numbers[size_t(number)];
  }
  /// In the warm-up: of the first step, 0 or one step's part.
  double grownFromZero() const;
  double grownFromOne() const;
  /// From `part`; if that is none, as grownFromOne.
  double grownFrom(double part) const;
  /// `p` of the step that comes next.
  double getNext() const;
  /// `p` where the way ends with that part of the total.
  double getEarly(double part) const;
  /// How much of the decay is gone, from 0 to 1: of num_decay_steps, behind
  /// those that are stable, or of decay_ratio, at the end.
  double getDecayed() const;
  double getDecayedAtEnd() const;
};

/// A row of Schedules.def.
struct ScheduleFacts {
  struct Number {
    ScheduleNumber number;
    double initial; ///< transformers' default; NaN: none
    bool isNeeded;
  };

  ScheduleKind kind;
  std::string_view name; ///< "cosine"
  double initialLeast;   ///< of min_lr
  bool hasLeast;         ///< min_lr has a meaning
  bool ends;             ///< it ends at `total_steps`
  std::vector<Number> numbers;
  double (*grown)(const ScheduleMoment &at);
  double (*left)(const ScheduleMoment &at);

  const Number *find(ScheduleNumber number) const;
};
std::span<const ScheduleFacts> getSchedules();
inline const ScheduleFacts &getFacts(ScheduleKind kind) {
  return getSchedules()[size_t(kind)];
}

/// What transformers calls one.
struct ScheduleName {
  std::string_view name; ///< "constant_with_warmup"
  ScheduleKind kind;
  bool warms; ///< a warm-up has a meaning
};
std::span<const ScheduleName> getScheduleNames();

/// Why another tool's schedule of that name cannot be had; empty: it is not
/// known.
std::string_view whyNoSchedule(std::string_view name);

} // namespace fsdp

#endif // FSDP_SUPPORT_SCHEDULES_H
