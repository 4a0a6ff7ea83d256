//===- ForeignOptimizer.cpp - Other tools' keys of optimizer and rate -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"

#include <cmath>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

/// transformers leaves biases and norms out of it, which patterns must say
/// here.
void foreign::readDecay(const Value &value) {
  if (kFromZero.read(value) != 0)
    value.reader().fail(
        ErrorId::ConfigNotSupported, value.node,
        "'weight_decay' spares biases and norms in transformers; say so "
        "with optimizer: {weight_decay: " +
            value.node.Scalar() +
            ", groups: [{params: [\"*bias\", \"*norm*\"], "
            "weight_decay: 0.0}]}");
  value.reading.result.config.optimizer.numbers[OptimizerNumber::weight_decay] =
      0;
}

void foreign::readBeta1(const Value &value) {
  value.reading.result.config.optimizer.numbers[OptimizerNumber::beta1] =
      kBeta.read(value);
}

void foreign::readBeta2(const Value &value) {
  value.reading.result.config.optimizer.numbers[OptimizerNumber::beta2] =
      kBeta.read(value);
}

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

/// -1 says that epochs count.
void foreign::readMaxSteps(const Value &value) {
  int64_t steps = Whole{.most = kMostSteps}.read(value);
  if (steps > 0)
    open(value.reading.result.config.schedule).total_steps =
        static_cast<uint64_t>(steps);
}

/// A number with a point in transformers' and Axolotl's files.
void foreign::readEpochs(const Value &value) {
  double epochs = value.reader().readDouble(value.node, value.key);
  if (!(epochs >= 1 && epochs <= double(kMostSteps)) ||
      epochs != std::trunc(epochs))
    value.failRange("a whole number from 1; fsdp-run --steps=N ends within an "
                    "epoch");
  open(value.reading.result.config.data).data.epochs =
      static_cast<uint64_t>(epochs);
}

static constexpr Number kPart = {[](double x) { return x >= 0 && x <= 1; },
                                 "from 0 to 1"};

/// Axolotl's.
void foreign::readMinRate(const Value &value) {
  value.reading.minRate = kPart.read(value);
}

/// transformers'; what they say depends on the schedule.
void foreign::readScheduleArguments(const Value &value) {
  if (!value.node.IsMap())
    value.failType("a map of keys and values");
  for (const auto &entry : value.node)
    if (!entry.second.IsNull())
      value.reading.scheduleArguments.push_back(
          {entry.first, entry.second, true});
}

static const Given *findForeign(const Reading &reading, const char *path) {
  const Given *key = reading.find(path);
  return key && key->isForeign ? key : nullptr;
}

/// Axolotl's key, where the schedule is one that it looks at it for.
static void mergeMinRate(Reading &reading, plan::ScheduleT &schedule) {
  if (!reading.minRate)
    return;
  if (getScheduleName(reading) == "cosine")
    schedule.min_lr = *reading.minRate * reading.result.config.optimizer.lr;
  else
    reading.noteWithoutEffect("lr_scheduler.min_lr",
                              "lr_scheduler: " + getScheduleName(reading) +
                                  ", as in Axolotl; cosine has one");
}

static void mergeArguments(Reading &reading, plan::ScheduleT &schedule) {
  std::string name = getScheduleName(reading);
  for (const Given &each : reading.scheduleArguments) {
    std::string key = each.name.Scalar();
    if (name != "cosine_with_min_lr" ||
        (key != "min_lr" && key != "min_lr_rate"))
      reading.read.fail(ErrorId::ConfigNotSupported, each.name,
                        "'" + key +
                            "' of lr_scheduler_kwargs cannot be had: "
                            "lr_scheduler: " +
                            name +
                            " is as in docs/Config.md; min_lr and "
                            "min_lr_rate are cosine_with_min_lr's");
    reading.take("lr_scheduler.min_lr", each);
    Value value{reading, "lr_scheduler.min_lr", key, each.value};
    schedule.min_lr = key == "min_lr" ? kFromZero.read(value)
                                      : kPart.read(value) *
                                            reading.result.config.optimizer.lr;
  }
}

static void mergeWarmup(Reading &reading, plan::ScheduleT &schedule,
                        const Given *steps, const Given *ratio,
                        const Given *warmup) {
  uint64_t ownSteps = steps ? 0 : schedule.warmup_steps;
  double ownRatio = ratio ? 0 : schedule.warmup_ratio;
  if (getScheduleName(reading) == "constant") {
    reading.addNote(warmup->value,
                    "a warm-up has no effect with lr_scheduler: constant, as "
                    "in transformers; constant_with_warmup has one");
    schedule.warmup_steps = ownSteps;
    schedule.warmup_ratio = ownRatio;
  } else if (ownSteps != 0 || ownRatio != 0) {
    reading.read.fail(ErrorId::ConfigBadValue, warmup->value,
                      "the warm-up is given in lr_scheduler, too; keep one");
  } else if (warmup == steps) {
    // As transformers: steps count if both are given.
    schedule.warmup_ratio = 0;
  }
}

void fsdp::mergeSchedule(Reading &reading) {
  std::optional<plan::ScheduleT> &schedule = reading.result.config.schedule;
  const Given *steps = findForeign(reading, "lr_scheduler.warmup_steps");
  const Given *ratio = findForeign(reading, "lr_scheduler.warmup_ratio");
  const Given *warmup = !schedule                              ? nullptr
                        : steps && schedule->warmup_steps != 0 ? steps
                        : ratio && schedule->warmup_ratio != 0 ? ratio
                                                               : nullptr;
  const Given *scheduler = reading.find("lr_scheduler");
  if (!scheduler || scheduler->value.IsNull()) {
    if (warmup)
      reading.read.fail(ErrorId::ConfigMissingKey, warmup->value,
                        "a warm-up needs lr_scheduler, such as cosine or "
                        "constant_with_warmup");
    if (reading.minRate)
      reading.refuse("lr_scheduler.min_lr",
                     reading.quote("lr_scheduler.min_lr") +
                         " needs lr_scheduler: cosine",
                     ErrorId::ConfigMissingKey);
    if (!reading.scheduleArguments.empty())
      reading.read.fail(ErrorId::ConfigMissingKey,
                        reading.scheduleArguments.front().name,
                        "lr_scheduler_kwargs need lr_scheduler: the schedule "
                        "that they are for");
    schedule.reset();
    return;
  }
  mergeMinRate(reading, *schedule);
  mergeArguments(reading, *schedule);
  if (warmup)
    mergeWarmup(reading, *schedule, steps, ratio, warmup);
}
