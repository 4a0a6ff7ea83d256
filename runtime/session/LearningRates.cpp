//===- LearningRates.cpp - The rates of each step -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/LearningRates.h"

#include "support/Error.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>

using namespace fsdp;

/// The number that a person wrote: 0.001, not 0.0010000000474974513.
static double toShortest(float value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double shortest = 0;
  std::from_chars(text, end, shortest);
  return shortest;
}

static double readFirst(const plan::StateT &state) {
  if (state.dtype == plan::DType::f64) {
    double value;
    std::memcpy(&value, state.init.data(), sizeof(value));
    return value;
  }
  float value;
  std::memcpy(&value, state.init.data(), sizeof(value));
  return toShortest(value);
}

LearningRates::LearningRates(const plan::PlanT &plan, const Arenas &arenas,
                             const SessionOptions &options)
    : arenas(arenas) {
  const plan::TrainingT &training = *plan.training;
  for (uint32_t state : training.rates)
    rates.push_back({plan.states[state].get(), readFirst(*plan.states[state])});
  if (rates.empty()) {
    if (options.lr || !options.lrSchedule.empty())
      throw Error(ErrorId::BadUsage,
                  "--lr and --lr-schedule need an artifact that trains and "
                  "that names its learning rates; compile the model again");
    return;
  }
  double base = rates.front().first;
  if (options.lr) {
    double lr = *options.lr;
    if (!std::isfinite(lr) || lr < 0)
      throw Error(ErrorId::BadUsage, "--lr: expected a number from 0, found " +
                                         std::to_string(lr));
    for (Rate &rate : rates) {
      if (base == 0 && rate.first != 0)
        throw Error(ErrorId::BadUsage,
                    "--lr: groups of parameters keep their ratio to the base's "
                    "rate, which is 0 in this artifact");
      rate.first = base == 0 ? lr : rate.first * (lr / base);
    }
    base = rates.front().first = lr;
  }
  const uint64_t steps = options.steps.value_or(0);
  auto follow = [&](const plan::ScheduleT &rule) {
    schedule.emplace(rule, base, steps);
    description = describeSchedule(rule);
    if (rule.total_steps == 0 && getFacts(kindOf(rule)).ends)
      description += " over " + std::to_string(steps) + " steps";
  };
  try {
    if (!options.lrSchedule.empty())
      follow(parseSchedule(options.lrSchedule, base));
    else if (training.schedule && training.schedule->min_lr > base)
      throw std::invalid_argument(
          "--lr: the artifact's schedule ends at a rate above it (" +
          describeSchedule(*training.schedule) +
          "); give another one with --lr-schedule");
    else if (training.schedule)
      follow(*training.schedule);
  } catch (const std::invalid_argument &error) {
    throw Error(ErrorId::BadUsage,
                (options.lrSchedule.empty() ? "" : "--lr-schedule: ") +
                    std::string(error.what()));
  }
}

std::pair<double, std::string> LearningRates::describe() const {
  return {rates.empty() ? 0 : rates.front().first, description};
}

std::optional<double> LearningRates::set(uint64_t step) const {
  if (rates.empty())
    return std::nullopt;
  double factor = schedule ? schedule->getFactor(step) : 1;
  for (const Rate &rate : rates) {
    double value = rate.first * factor;
    if (rate.state->dtype == plan::DType::f64) {
      arenas.of(*rate.state).write(rate.state->offset, &value, sizeof(value));
    } else {
      auto narrow = static_cast<float>(value);
      arenas.of(*rate.state).write(rate.state->offset, &narrow, sizeof(narrow));
    }
  }
  double base = rates.front().first * factor;
  return rates.front().state->dtype == plan::DType::f64
             ? base
             : toShortest(static_cast<float>(base));
}
