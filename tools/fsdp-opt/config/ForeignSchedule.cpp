//===- ForeignSchedule.cpp - Other tools' keys of the rate ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Schedule.h"
#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <cmath>

using namespace fsdp;

/// -1 says that epochs count.
void foreign::readMaxSteps(const Value &value) {
  int64_t steps = Whole{.most = kMostSteps}.read(value);
  if (steps > 0)
    open(value.reading.result.config.schedule).total_steps =
        static_cast<uint64_t>(steps);
}

/// Steps, or below 1 a part of all, as transformers has it.
void foreign::readWarmupSteps(const Value &value) {
  double steps = value.reader().readDouble(value.node, value.key);
  plan::ScheduleT &schedule = open(value.reading.result.config.schedule);
  if (steps > 0 && steps < 1)
    schedule.warmup_ratio = steps;
  else
    schedule.warmup_steps =
        static_cast<uint64_t>(between(0, kMostSteps).read(value));
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
  value.reading.becomeValue("data.epochs", static_cast<uint64_t>(epochs));
}

static constexpr Number kPart = {[](double x) { return x >= 0 && x <= 1; },
                                 "from 0 to 1"};

/// Axolotl's.
void foreign::readMinRate(const Value &value) {
  value.reading.minRate = kPart.read(value);
}

void foreign::readQuadraticWarmup(const Value &value) {
  value.reading.growsQuadratically =
      value.reader().readBool(value.node, value.key);
}

void foreign::readConstantRatio(const Value &value) {
  value.reading.constantRatio = kPart.read(value);
}

/// torchtitan's, of any schedule that goes down.
void foreign::readMinFactor(const Value &value) {
  readMinRate(value);
  value.reading.isMinOfAll = true;
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
  std::string name = getScheduleName(reading);
  if (name == "cosine" || name == "rex" ||
      (reading.isMinOfAll && getFacts(kindOf(schedule)).hasLeast))
    schedule.min_lr_ratio = *reading.minRate;
  else
    reading.noteWithoutEffect(
        "lr_scheduler.min_lr_ratio",
        "lr_scheduler: " + name +
            (reading.isMinOfAll ? ""
                                : ", as in Axolotl; cosine and rex have one"));
}

namespace {
/// What transformers calls a least rate, and whose argument it is.
struct LeastArgument {
  std::string_view key, becomes;
  std::string_view schedules[2];
};
constexpr LeastArgument kLeastArguments[] = {
    {"min_lr", "min_lr", {"cosine_with_min_lr", "cosine_warmup_with_min_lr"}},
    {"min_lr_rate",
     "min_lr_ratio",
     {"cosine_with_min_lr", "cosine_warmup_with_min_lr"}},
    {"min_lr_ratio", "min_lr_ratio", {"warmup_stable_decay", ""}},
    {"lr_end", "min_lr", {"polynomial", ""}},
};
} // namespace

/// The key here that an argument of `name` is; empty: it has no such.
static std::string findArgument(const std::string &name, ScheduleKind kind,
                                const std::string &key) {
  for (const LeastArgument &each : kLeastArguments)
    if (each.key == key &&
        std::ranges::find(each.schedules, name) != std::end(each.schedules))
      return std::string(each.becomes);
  const ScheduleNumberFacts *number = findScheduleNumber(key);
  return number && getFacts(kind).find(number->number) ? key : "";
}

/// Axolotl's keys of a cosine; a quadratic warm-up goes before a least rate,
/// and a constant end is that of one.
static void mergeCosine(Reading &reading, plan::ScheduleT &schedule) {
  std::string name = getScheduleName(reading);
  bool isCosine = name == "cosine";
  if (reading.growsQuadratically && !isCosine)
    reading.noteWithoutEffect("lr_scheduler.warmup_power",
                              "lr_scheduler: " + name + ", as in Axolotl");
  else if (reading.growsQuadratically)
    setNumber(schedule, ScheduleNumber::warmup_power, 2);
  if (reading.growsQuadratically && isCosine && reading.minRate) {
    reading.noteWithoutEffect("lr_scheduler.min_lr_ratio",
                              "lr_quadratic_warmup, as in Axolotl");
    reading.minRate.reset();
  }
  if (!reading.constantRatio)
    return;
  if (isCosine && reading.minRate)
    setNumber(schedule, ScheduleNumber::constant_ratio, *reading.constantRatio);
  else
    reading.noteWithoutEffect("lr_scheduler.constant_ratio",
                              "lr_scheduler: " + name +
                                  ", as in Axolotl, where a cosine with "
                                  "cosine_min_lr_ratio has it");
}

static void mergeArguments(Reading &reading, plan::ScheduleT &schedule) {
  std::string name = getScheduleName(reading);
  for (const Given &each : reading.scheduleArguments) {
    std::string key = each.name.Scalar();
    std::string own = findArgument(name, kindOf(schedule), key);
    if (own.empty())
      reading.read.fail(ErrorId::ConfigNotSupported, each.name,
                        "'" + key +
                            "' of lr_scheduler_kwargs cannot be had: "
                            "lr_scheduler: " +
                            name + " is as in docs/Config.md");
    std::string path = "lr_scheduler." + own;
    reading.take(path, each);
    getTopLevel().readAt(path, Value{reading, path, key, each.value},
                         reading.result.config);
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

/// torchtitan's files need not name a shape.
static void completeName(Reading &reading) {
  const Given *scheduler = reading.find("lr_scheduler");
  YAML::Node training = reading.root["training"];
  if (!scheduler || !scheduler->value.IsMap() || !training ||
      !training.IsMap() || reading.find("lr_scheduler.name"))
    return;
  constexpr ScheduleKind kind = ScheduleKind::linear_warmup_stable_decay;
  YAML::Node name(std::string(getFacts(kind).name));
  reading.take("lr_scheduler.name", {YAML::Node("lr_scheduler"), name, true});
  reading.result.config.schedule->kind = uint8_t(kind);
}

/// Files of a trainer that warm up and do not say what for: its default.
static void completeShape(Reading &reading) {
  const Given *scheduler = reading.find("lr_scheduler");
  if (!reading.root.IsMap() || (scheduler && !scheduler->value.IsNull()))
    return;
  bool isAxolotl = bool(reading.root["base_model"]);
  if (!isAxolotl && !reading.root["per_device_train_batch_size"] &&
      !reading.root["model_name_or_path"])
    return;
  const Given *warmup = nullptr;
  for (const char *path :
       {"lr_scheduler.warmup_steps", "lr_scheduler.warmup_ratio"})
    if (const Given *key = findForeign(reading, path);
        key && !isOff(key->value))
      warmup = key;
  if (!warmup || scheduler)
    return;
  const char *shape = isAxolotl ? "cosine" : "linear";
  YAML::Node node(shape);
  reading.take("lr_scheduler", {YAML::Node("lr_scheduler"), node, true});
  reading.result.config.schedule->kind =
      uint8_t(isAxolotl ? ScheduleKind::cosine : ScheduleKind::linear);
  reading.addNote(warmup->value,
                  std::string("a warm-up without lr_scheduler: it is ") +
                      shape + ", the default of " +
                      (isAxolotl ? "Axolotl" : "transformers"));
}

static void merge(Reading &reading) {
  completeName(reading);
  completeShape(reading);
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
      reading.refuse("lr_scheduler.min_lr_ratio",
                     reading.quote("lr_scheduler.min_lr_ratio") +
                         " needs lr_scheduler: cosine or rex",
                     ErrorId::ConfigMissingKey);
    if (!reading.scheduleArguments.empty())
      reading.read.fail(ErrorId::ConfigMissingKey,
                        reading.scheduleArguments.front().name,
                        "lr_scheduler_kwargs need lr_scheduler: the schedule "
                        "that they are for");
    schedule.reset();
    return;
  }
  mergeCosine(reading, *schedule);
  mergeMinRate(reading, *schedule);
  mergeArguments(reading, *schedule);
  completeLeast(*schedule, reading.find("lr_scheduler.min_lr") ||
                               reading.find("lr_scheduler.min_lr_ratio"));
  if (warmup)
    mergeWarmup(reading, *schedule, steps, ratio, warmup);
}

/// All of it, where other tools' keys have a part in it.
static void becomeSchedule(Reading &reading) {
  const std::optional<plan::ScheduleT> &schedule =
      reading.result.config.schedule;
  reading.forget("lr_scheduler");
  if (!schedule)
    return;
  std::string name = getScheduleName(reading);
  reading.becomeValue("lr_scheduler.name", name);
  auto add = [&](const char *key, auto value) {
    if (value != 0)
      reading.becomeValue(std::string("lr_scheduler.") + key,
                          printNumber(double(value)));
  };
  add("warmup_steps", schedule->warmup_steps);
  add("warmup_ratio", schedule->warmup_ratio);
  add("total_steps", schedule->total_steps);
  add("min_lr", schedule->min_lr);
  add("min_lr_ratio", schedule->min_lr_ratio);
  for (const ScheduleNumberFacts &each : getScheduleNumbers())
    if (isGiven(*schedule, each.number))
      reading.becomeValue("lr_scheduler." + std::string(each.name),
                          each.print(getNumber(*schedule, each.number)));
}

void fsdp::mergeSchedule(Reading &reading) {
  merge(reading);
  becomeSchedule(reading);
}
