//===- Schedule.cpp - Learning rates over time ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Schedule.h"

#include "support/Format.h"
#include "support/Nearest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <vector>

using namespace fsdp;

/// More steps than any run has, and exact as double.
static constexpr uint64_t kMaxSteps = uint64_t(1) << 53;

static const ScheduleName *findName(std::string_view name) {
  auto found = std::ranges::find(getScheduleNames(), name, &ScheduleName::name);
  return found == getScheduleNames().end() ? nullptr : &*found;
}

/// What a schedule of that kind is called where it warms up.
static std::string nameWarming(ScheduleKind kind) {
  for (const ScheduleName &each : getScheduleNames())
    if (each.kind == kind && each.warms)
      return std::string(each.name);
  return "another one";
}

//===----------------------------------------------------------------------===//
// Numbers of a schedule's own
//===----------------------------------------------------------------------===//

bool fsdp::isGiven(const plan::ScheduleT &schedule, ScheduleNumber number) {
  auto i = size_t(number);
  return i < schedule.numbers.size() && !std::isnan(schedule.numbers[i]);
}

double fsdp::getNumber(const plan::ScheduleT &schedule, ScheduleNumber number) {
  if (isGiven(schedule, number))
    return schedule.numbers[size_t(number)];
  const auto *own = getFacts(kindOf(schedule)).find(number);
  return own ? own->initial : kAbsentNumber;
}

void fsdp::setNumber(plan::ScheduleT &schedule, ScheduleNumber number,
                     double value) {
  schedule.numbers.resize(size_t(ScheduleNumber::count), kAbsentNumber);
  schedule.numbers[size_t(number)] = value;
}

void fsdp::completeLeast(plan::ScheduleT &schedule, bool namesLeast) {
  if (!namesLeast)
    schedule.min_lr = getFacts(kindOf(schedule)).initialLeast;
}

/// That those that are given are the schedule's, and in their range.
static std::optional<std::string>
checkNumbers(std::string_view name, const plan::ScheduleT &schedule) {
  const ScheduleFacts &facts = getFacts(kindOf(schedule));
  if (schedule.numbers.size() > getScheduleNumbers().size())
    return std::string("holds numbers that no schedule has");
  for (const ScheduleNumberFacts &each : getScheduleNumbers()) {
    if (!isGiven(schedule, each.number))
      continue;
    double value = schedule.numbers[size_t(each.number)];
    if (!facts.find(each.number))
      return std::string(each.name) + " has no meaning for " +
             std::string(name);
    if (!each.holds(value))
      return "expected a " + each.describe() + " for " +
             std::string(each.name) + ", found " + formatNumber(value);
  }
  for (const ScheduleFacts::Number &each : facts.numbers)
    if (each.isNeeded && !isGiven(schedule, each.number))
      return std::string(name) + " needs " +
             std::string(getFacts(each.number).name) + ", " +
             std::string(getFacts(each.number).text);
  return std::nullopt;
}

/// Of a warm-up, stable steps and a decay that have to fit into `total`.
static std::optional<std::string>
checkLengths(const plan::ScheduleT &schedule, uint64_t warmup, uint64_t total) {
  double decay = getNumber(schedule, ScheduleNumber::num_decay_steps);
  double stable = getNumber(schedule, ScheduleNumber::num_stable_steps);
  if (std::isnan(decay) || !std::isnan(stable) ||
      double(warmup) + decay <= double(total))
    return std::nullopt;
  return "the warm-up of " + std::to_string(warmup) + " and the decay of " +
         formatNumber(decay) + " steps do not fit into the total of " +
         std::to_string(total);
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

std::optional<std::string> fsdp::checkSchedule(std::string_view name,
                                               const plan::ScheduleT &schedule,
                                               double lr) {
  bool warms = schedule.warmup_steps != 0 || schedule.warmup_ratio != 0;
  const ScheduleFacts &facts = getFacts(kindOf(schedule));
  const ScheduleName *known = findName(name);
  if (known && !known->warms && warms)
    return "a warm-up has no meaning for " + std::string(name) + "; write " +
           nameWarming(known->kind);
  if (name.empty())
    name = facts.name;
  if (schedule.warmup_steps != 0 && schedule.warmup_ratio != 0)
    return "the warm-up is given twice, as steps and as ratio; keep one";
  if (!(schedule.warmup_ratio >= 0 && schedule.warmup_ratio <= 1))
    return "expected a warm-up ratio from 0 to 1, found " +
           formatNumber(schedule.warmup_ratio);
  if (schedule.warmup_steps > kMaxSteps || schedule.total_steps > kMaxSteps)
    return std::string("expected fewer than 2^53 steps");
  if (schedule.total_steps && schedule.warmup_steps > schedule.total_steps)
    return "the warm-up of " + std::to_string(schedule.warmup_steps) +
           " steps does not fit into the total of " +
           std::to_string(schedule.total_steps);
  if (!(schedule.min_lr >= 0) || !std::isfinite(schedule.min_lr))
    return "expected a least rate from 0, found " +
           formatNumber(schedule.min_lr);
  if (!(schedule.min_lr_ratio >= 0 && schedule.min_lr_ratio <= 1))
    return "expected a least rate from 0 to 1 of the rate, found " +
           formatNumber(schedule.min_lr_ratio);
  if (schedule.min_lr != 0 && schedule.min_lr_ratio != 0)
    return std::string("the least rate is given twice, as a number and as a "
                       "part of the rate; keep one");
  if (!facts.hasLeast && (schedule.min_lr != 0 || schedule.min_lr_ratio != 0))
    return "a least rate has no meaning for " + std::string(name);
  if (schedule.min_lr > lr)
    return "the least rate " + formatNumber(schedule.min_lr) +
           " is above the rate " + formatNumber(lr);
  if (std::optional<std::string> problem = checkNumbers(name, schedule))
    return problem;
  if (schedule.total_steps)
    return checkLengths(schedule, schedule.warmup_steps, schedule.total_steps);
  return std::nullopt;
}

/// A whole number; false for anything else.
static bool toSteps(double value, uint64_t &steps) {
  if (!(value >= 0) || value != std::floor(value) ||
      value > static_cast<double>(kMaxSteps))
    return false;
  steps = static_cast<uint64_t>(value);
  return true;
}

/// Whether it is a least rate, so that the kind's own does not count.
static bool setField(plan::ScheduleT &schedule, std::string_view key,
                     std::string_view text) {
  auto fail = [&](const std::string &what) {
    throw std::invalid_argument("expected a " + what + " for '" +
                                std::string(key) + "', found '" +
                                std::string(text) + "'");
  };
  if (const ScheduleNumberFacts *number = findScheduleNumber(key)) {
    std::optional<double> value = number->parse(text);
    if (!value)
      fail(number->describe());
    setNumber(schedule, number->number, *value);
    return false;
  }
  double value = 0;
  auto [rest, failure] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  bool isNumber = failure == std::errc() && rest == text.data() + text.size();
  if (key == "warmup" || key == "total") {
    uint64_t &steps =
        key == "warmup" ? schedule.warmup_steps : schedule.total_steps;
    if (!isNumber || !toSteps(value, steps))
      fail("number of steps");
    return false;
  }
  double *member = key == "warmup_ratio" ? &schedule.warmup_ratio
                   : key == "min"        ? &schedule.min_lr
                   : key == "min_ratio"  ? &schedule.min_lr_ratio
                                         : nullptr;
  if (!member) {
    std::string list;
    for (const auto &each : getFacts(kindOf(schedule)).numbers)
      list += ", " + std::string(getFacts(each.number).name);
    throw std::invalid_argument("expected one of warmup, warmup_ratio, total, "
                                "min, min_ratio" +
                                list + ", found '" + std::string(key) + "'");
  }
  if (!isNumber)
    fail("number");
  *member = value;
  return member != &schedule.warmup_ratio;
}

plan::ScheduleT fsdp::parseSchedule(std::string_view text, double lr) {
  size_t colon = std::min(text.find(':'), text.size());
  std::string_view name = text.substr(0, colon);
  const ScheduleName *known = findName(name);
  if (std::string_view why = whyNoSchedule(name); !why.empty())
    throw std::invalid_argument("'" + std::string(name) +
                                "' cannot be had: " + std::string(why));
  if (!known) {
    std::vector<std::string_view> names;
    std::string list;
    for (const ScheduleName &each : getScheduleNames()) {
      list += (names.empty() ? "" : ", ") + std::string(each.name);
      names.push_back(each.name);
    }
    std::string_view nearest = findNearest(name, names);
    throw std::invalid_argument(
        "expected one of " + list + ", found '" + std::string(name) + "'" +
        (nearest.empty() ? ""
                         : "; did you mean '" + std::string(nearest) + "'?"));
  }
  plan::ScheduleT schedule;
  schedule.kind = uint8_t(known->kind);
  std::string_view rest = text.substr(std::min(colon + 1, text.size()));
  bool namesLeast = false;
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::string_view field = rest.substr(0, comma);
    size_t equals = std::min(field.find('='), field.size());
    namesLeast |= setField(schedule, field.substr(0, equals),
                           field.substr(std::min(equals + 1, field.size())));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  completeLeast(schedule, namesLeast);
  if (std::optional<std::string> problem = checkSchedule(name, schedule, lr))
    throw std::invalid_argument(*problem);
  return schedule;
}

std::string fsdp::describeSchedule(const plan::ScheduleT &schedule) {
  const ScheduleFacts &facts = getFacts(kindOf(schedule));
  std::string text(facts.name);
  if (schedule.warmup_steps)
    text += ", warm-up " + std::to_string(schedule.warmup_steps);
  if (schedule.warmup_ratio != 0)
    text +=
        ", warm-up " + formatNumber(schedule.warmup_ratio) + " of the total";
  if (facts.ends || schedule.warmup_ratio != 0)
    text += schedule.total_steps
                ? ", total " + std::to_string(schedule.total_steps)
                : ", total of the run";
  if (schedule.min_lr != 0)
    text += ", min_lr " + formatNumber(schedule.min_lr);
  if (schedule.min_lr_ratio != 0)
    text += ", min_lr " + formatNumber(schedule.min_lr_ratio) + " of the rate";
  for (const ScheduleNumberFacts &each : getScheduleNumbers())
    if (isGiven(schedule, each.number))
      text += ", " + std::string(each.name) + " " +
              each.print(schedule.numbers[size_t(each.number)]);
  return text;
}

RateSchedule::RateSchedule(const plan::ScheduleT &schedule, double lr,
                           uint64_t steps)
    : facts(getFacts(kindOf(schedule))), warmup(schedule.warmup_steps),
      total(schedule.total_steps ? schedule.total_steps : steps) {
  bool ends =
      facts.ends && !isGiven(schedule, ScheduleNumber::num_stable_steps);
  bool needsTotal = ends || schedule.warmup_ratio != 0;
  if (needsTotal && total == 0)
    throw std::invalid_argument("the learning rate's schedule (" +
                                describeSchedule(schedule) +
                                ") needs the number of steps");
  if (schedule.warmup_ratio != 0)
    warmup = static_cast<uint64_t>(
        std::ceil(schedule.warmup_ratio * static_cast<double>(total)));
  if (std::optional<std::string> problem =
          checkLengths(schedule, warmup, total))
    throw std::invalid_argument("the learning rate's schedule (" +
                                describeSchedule(schedule) + "): " + *problem);
  begin.warmup = static_cast<double>(warmup);
  begin.total = static_cast<double>(total);
  begin.least =
      schedule.min_lr != 0 ? schedule.min_lr / lr : schedule.min_lr_ratio;
  for (const ScheduleNumberFacts &each : getScheduleNumbers())
    begin.numbers[size_t(each.number)] = getNumber(schedule, each.number);
}

double RateSchedule::getFactor(uint64_t step) const {
  ScheduleMoment at = begin;
  at.step = static_cast<double>(step);
  if (step < warmup)
    return facts.grown(at);
  uint64_t way = total > warmup ? total - warmup : 1;
  at.p = std::min(1.0, static_cast<double>(step - warmup) /
                           static_cast<double>(way));
  double left = std::max(0.0, facts.left(at));
  return left == 1 ? 1 : at.least + (1 - at.least) * left;
}
