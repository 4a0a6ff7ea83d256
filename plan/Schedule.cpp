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

std::optional<std::string> fsdp::checkSchedule(std::string_view name,
                                               const plan::ScheduleT &schedule,
                                               double lr) {
  bool warms = schedule.warmup_steps != 0 || schedule.warmup_ratio != 0;
  const ScheduleFacts &facts = getFacts(kindOf(schedule));
  const ScheduleName *known = findName(name);
  if (known && !known->warms && warms)
    return "a warm-up has no meaning for " + std::string(name) + "; write " +
           nameWarming(known->kind);
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
  if (!facts.decays && schedule.min_lr != 0)
    return "a least rate has no meaning for " +
           std::string(name.empty() ? facts.name : name);
  if (schedule.min_lr > lr)
    return "the least rate " + formatNumber(schedule.min_lr) +
           " is above the rate " + formatNumber(lr);
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

static void setField(plan::ScheduleT &schedule, std::string_view key,
                     std::string_view text) {
  double value = 0;
  auto [rest, failure] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  bool isNumber = failure == std::errc() && rest == text.data() + text.size();
  auto expect = [&](bool valid, const char *what) {
    if (!isNumber || !valid)
      throw std::invalid_argument("expected " + std::string(what) + " for '" +
                                  std::string(key) + "', found '" +
                                  std::string(text) + "'");
  };
  if (key == "warmup") {
    expect(toSteps(value, schedule.warmup_steps), "a number of steps");
  } else if (key == "total") {
    expect(toSteps(value, schedule.total_steps), "a number of steps");
  } else if (key == "warmup_ratio") {
    expect(true, "a number");
    schedule.warmup_ratio = value;
  } else if (key == "min") {
    expect(true, "a number");
    schedule.min_lr = value;
  } else {
    throw std::invalid_argument("expected one of warmup, warmup_ratio, total, "
                                "min, found '" +
                                std::string(key) + "'");
  }
}

plan::ScheduleT fsdp::parseSchedule(std::string_view text, double lr) {
  size_t colon = std::min(text.find(':'), text.size());
  std::string_view name = text.substr(0, colon);
  const ScheduleName *known = findName(name);
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
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::string_view field = rest.substr(0, comma);
    size_t equals = std::min(field.find('='), field.size());
    setField(schedule, field.substr(0, equals),
             field.substr(std::min(equals + 1, field.size())));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
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
  if (facts.decays || schedule.warmup_ratio != 0)
    text += schedule.total_steps
                ? ", total " + std::to_string(schedule.total_steps)
                : ", total of the run";
  if (schedule.min_lr != 0)
    text += ", min_lr " + formatNumber(schedule.min_lr);
  return text;
}

RateSchedule::RateSchedule(const plan::ScheduleT &schedule, double lr,
                           uint64_t steps)
    : kind(kindOf(schedule)), warmup(schedule.warmup_steps),
      total(schedule.total_steps ? schedule.total_steps : steps) {
  bool needsTotal = getFacts(kind).decays || schedule.warmup_ratio != 0;
  if (needsTotal && total == 0)
    throw std::invalid_argument("the learning rate's schedule (" +
                                describeSchedule(schedule) +
                                ") needs the number of steps");
  if (schedule.warmup_ratio != 0)
    warmup = static_cast<uint64_t>(
        std::ceil(schedule.warmup_ratio * static_cast<double>(total)));
  if (schedule.min_lr != 0)
    minRatio = schedule.min_lr / lr;
}

double RateSchedule::getFactor(uint64_t step) const {
  if (step < warmup)
    return static_cast<double>(step) / static_cast<double>(warmup);
  uint64_t decay = total > warmup ? total - warmup : 1;
  double progress = std::min(1.0, static_cast<double>(step - warmup) /
                                      static_cast<double>(decay));
  double left = getFacts(kind).left(progress);
  return minRatio + (1 - minRatio) * std::max(0.0, left);
}
