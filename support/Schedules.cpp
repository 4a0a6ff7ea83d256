//===- Schedules.cpp - Shapes of a learning rate over time ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Schedules.h"

#include "support/Format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <system_error>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// By ScheduleShape; what torchtitan calls one comes last.
static constexpr std::string_view kShapes[] = {"linear", "cosine", "1-sqrt",
                                               "sqrt"};
static constexpr size_t kNumShapes = 3;

bool ScheduleNumberFacts::holds(double value) const {
  bool isWhole = value == std::floor(value) && value <= 0x1p53;
  switch (range) {
  case ScheduleRange::fromZero:
    return value >= 0 && std::isfinite(value);
  case ScheduleRange::ratio:
    return value >= 0 && value <= 1;
  case ScheduleRange::steps:
    return value >= 0 && isWhole;
  case ScheduleRange::stepsFromOne:
    return value >= 1 && isWhole;
  case ScheduleRange::shape:
    return value >= 0 && isWhole && value < double(kNumShapes);
  }
  return false;
}

std::string ScheduleNumberFacts::describe() const {
  switch (range) {
  case ScheduleRange::fromZero:
    return "number from 0";
  case ScheduleRange::ratio:
    return "number from 0 to 1";
  case ScheduleRange::steps:
    return "whole number from 0";
  case ScheduleRange::stepsFromOne:
    return "whole number from 1";
  case ScheduleRange::shape:
    return "`linear`, `cosine` or `1-sqrt`";
  }
  return "";
}

std::string ScheduleNumberFacts::print(double value) const {
  if (range == ScheduleRange::shape)
    return std::string(kShapes[size_t(value)]);
  return formatNumber(value);
}

std::optional<double> ScheduleNumberFacts::parse(std::string_view text) const {
  if (range == ScheduleRange::shape) {
    const auto *word = std::ranges::find(kShapes, text);
    if (word == std::end(kShapes))
      return std::nullopt;
    return double(
        std::min<size_t>(size_t(word - std::begin(kShapes)), kNumShapes - 1));
  }
  double value = 0;
  const char *end = text.data() + text.size();
  auto [rest, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || rest != end || !holds(value))
    return std::nullopt;
  return value;
}

std::span<const ScheduleNumberFacts> fsdp::getScheduleNumbers() {
  static constexpr ScheduleNumberFacts all[] = {
#define FSDP_SCHEDULE_NUMBER(name, range, text)                                \
  {ScheduleNumber::name, #name, ScheduleRange::range, text},
#include "support/Schedules.def"
  };
  return all;
}

const ScheduleNumberFacts &fsdp::getFacts(ScheduleNumber number) {
  return getScheduleNumbers()[size_t(number)];
}

const ScheduleNumberFacts *fsdp::findScheduleNumber(std::string_view name) {
  auto found =
      std::ranges::find(getScheduleNumbers(), name, &ScheduleNumberFacts::name);
  return found == getScheduleNumbers().end() ? nullptr : &*found;
}

//===----------------------------------------------------------------------===//
// Moments
//===----------------------------------------------------------------------===//

double ScheduleMoment::grownFromZero() const { return step / warmup; }

double ScheduleMoment::grownFromOne() const { return (step + 1) / warmup; }

double ScheduleMoment::grownFrom(double part) const {
  if (std::isnan(part))
    return grownFromOne();
  return part + (1 - part) * step / std::max(1.0, warmup - 1);
}

double ScheduleMoment::getNext() const {
  double way = std::max(1.0, total - warmup);
  return std::min(1.0, (step + 1 - warmup) / way);
}

double ScheduleMoment::getEarly(double part) const {
  if (part == 1)
    return p;
  double end = std::floor(total * part);
  return std::max(0.0, std::min(step, end) - warmup) /
         std::max(1.0, end - warmup);
}

/// Of steps from `begin` on.
static double getPart(double step, double begin, double steps) {
  if (step < begin)
    return 0;
  return step >= begin + steps ? 1 : (step - begin) / steps;
}

double ScheduleMoment::getDecayed() const {
  double decay = (*this)[ScheduleNumber::num_decay_steps];
  double stable = (*this)[ScheduleNumber::num_stable_steps];
  return getPart(step, std::isnan(stable) ? total - decay : warmup + stable,
                 decay);
}

double ScheduleMoment::getDecayedAtEnd() const {
  double ratio = (*this)[ScheduleNumber::decay_ratio];
  double decay = std::max(0.0, total - warmup);
  if (!std::isnan(ratio)) // as Python rounds: halves to the even number
    decay = std::min(decay, std::nearbyint(total * ratio));
  return getPart(step, total - decay, decay);
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// From 1 to 0 while `x` goes from 0 to 1.
static double toCosine(double x) {
  return (1 + std::cos(std::numbers::pi * x)) / 2;
}

static double toShape(double shape, double p, double cycles) {
  if (p >= 1) // behind the end nothing is left, whatever the waves say
    return 0;
  switch (ScheduleShape(int(shape))) {
  case ScheduleShape::linear:
    return 1 - p;
  case ScheduleShape::cosine:
    return toCosine(2 * cycles * p);
  case ScheduleShape::root:
    return 1 - std::sqrt(p);
  }
  return 0;
}

static double toGrown(double shape, double p) {
  switch (ScheduleShape(int(shape))) {
  case ScheduleShape::linear:
    return p;
  case ScheduleShape::cosine:
    return 1 - toCosine(p);
  case ScheduleShape::root:
    return 1 - std::sqrt(1 - p);
  }
  return 0;
}

static double toInverseRoot(const ScheduleMoment &at) {
  double scale = at[ScheduleNumber::timescale];
  if (std::isnan(scale))
    scale = at.warmup != 0 ? at.warmup : 10000;
  return 1 / std::sqrt((at.step - at.warmup + scale) / scale);
}

/// Of a part z of the way that is left.
static double toReflected(double z) { return z / (0.1 + 0.9 * z); }

const ScheduleFacts::Number *ScheduleFacts::find(ScheduleNumber number) const {
  auto found = std::ranges::find(numbers, number, &Number::number);
  return found == numbers.end() ? nullptr : &*found;
}

namespace {
/// What rows may say of a default that is no number of its own.
struct Initial {
  constexpr Initial(double value) : value(value) {}
  constexpr Initial(ScheduleShape shape) : value(double(shape)) {}
  constexpr Initial(double value, bool isNeeded)
      : value(value), isNeeded(isNeeded) {}
  double value;
  bool isNeeded = false;
};
struct NumberRow {
  ScheduleNumber number;
  Initial initial;
};
} // namespace

static std::vector<ScheduleFacts::Number>
getNumbers(std::initializer_list<NumberRow> rows) {
  std::vector<ScheduleFacts::Number> numbers;
  for (const NumberRow &row : rows)
    numbers.push_back({row.number, row.initial.value, row.initial.isNeeded});
  return numbers;
}

static std::vector<ScheduleFacts> makeSchedules() {
  using enum ScheduleNumber;
  constexpr ScheduleShape linear = ScheduleShape::linear;
  constexpr ScheduleShape cosine = ScheduleShape::cosine;
  constexpr Initial absent(kAbsentNumber), needed(kAbsentNumber, true);
  constexpr double none = -1;
#define FSDP_NUMBERS(...) getNumbers({__VA_ARGS__})
#define FSDP_SCHEDULE(kind, warms, least, ends, numbers, grown, left)          \
  {ScheduleKind::kind,                                                         \
   #kind,                                                                      \
   (least) < 0 ? 0.0 : double(least),                                          \
   (least) >= 0,                                                               \
   ends,                                                                       \
   numbers,                                                                    \
   []([[maybe_unused]] const ScheduleMoment &at) -> double { return grown; },  \
   []([[maybe_unused]] const ScheduleMoment &at) -> double { return left; }},
  return {
#include "support/Schedules.def"
  };
#undef FSDP_NUMBERS
}

std::span<const ScheduleFacts> fsdp::getSchedules() {
  static const std::vector<ScheduleFacts> all = makeSchedules();
  return all;
}

std::span<const ScheduleName> fsdp::getScheduleNames() {
  static constexpr ScheduleName all[] = {
#define FSDP_SCHEDULE(kind, warms, ...) {#kind, ScheduleKind::kind, warms},
#include "support/Schedules.def"
#define FSDP_SCHEDULE_NAME(name, kind) {#name, ScheduleKind::kind, true},
#include "support/Schedules.def"
  };
  return all;
}

std::string_view fsdp::whyNoSchedule(std::string_view name) {
#define FSDP_NO_SCHEDULE(other, why)                                           \
  if (name == #other)                                                          \
    return why;
#include "support/Schedules.def"
  return {};
}
