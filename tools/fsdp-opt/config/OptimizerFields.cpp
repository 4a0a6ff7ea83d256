//===- OptimizerFields.cpp - optimizer and lr_scheduler of the config -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Schedule.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <cmath>
#include <deque>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

/// What may be written for a number.
static std::string describe(NumberRange range) {
  switch (range) {
  case NumberRange::fromZero:
    return kFromZero.describe();
  case NumberRange::belowOne:
    return kBeta.describe();
  case NumberRange::flag:
    return getFormat<bool>().describe();
  }
  return "";
}

static double readNumber(NumberRange range, const Value &value) {
  switch (range) {
  case NumberRange::fromZero:
    return kFromZero.read(value);
  case NumberRange::belowOne:
    return kBeta.read(value);
  case NumberRange::flag:
    return getFormat<bool>().read(value) ? 1 : 0;
  }
  return 0;
}

/// A number, or as many as the key has.
template <typename Owner>
static void readKey(const OptimizerKey &key, const Value &value, Owner &owner) {
  NumberRange range = getFacts(key.numbers.front()).range;
  if (key.numbers.size() == 1) {
    owner.numbers[key.numbers[0]] = readNumber(range, value);
    return;
  }
  const YAML::Node &node = value.node;
  if (!node.IsSequence() || node.size() != key.numbers.size())
    value.failType("a list of two numbers such as [0.9, 0.999]");
  for (size_t i = 0; i < key.numbers.size(); ++i) {
    std::string path = value.path + "[" + std::to_string(i) + "]";
    value.reading.take(path, *value.reading.find(value.path));
    owner.numbers[key.numbers[i]] =
        readNumber(range, {value.reading, path, value.key, node[i]});
  }
}

/// `0.01` for `adamw`, else `0`: the default of those that have the key.
static std::string describeDefault(const OptimizerKey &key) {
  std::vector<std::pair<std::string, std::string>> all; // default, whose
  for (const OptimizerFacts &each : getOptimizers()) {
    if (!each.has(key.numbers[0]))
      continue;
    OptimizerNumbers initial = each.getDefaults();
    std::string text;
    for (OptimizerNumber number : key.numbers)
      text += (text.empty() ? "" : ", ") +
              (getFacts(number).range != NumberRange::flag
                   ? printNumber(initial[number])
               : initial[number] != 0 ? "true"
                                      : "false");
    if (key.numbers.size() > 1)
      text = "[" + text + "]";
    auto known =
        std::ranges::find(all, text, [](auto &one) { return one.first; });
    if (known == all.end())
      all.emplace_back(text, "`" + std::string(each.name) + "`");
    else
      known->second += ", `" + std::string(each.name) + "`";
  }
  std::string text;
  for (size_t i = 0; i < all.size(); ++i)
    text += (i == 0                ? "`"
             : i + 1 == all.size() ? ", else `"
                                   : ", `") +
            all[i].first + "`" +
            (i + 1 == all.size() ? "" : " for " + all[i].second);
  return text;
}

/// The first words name who has the key, where not all do.
static std::string describeKey(const OptimizerKey &key) {
  std::string_view text = getFacts(key.numbers[0]).text;
  std::string whose;
  bool isOfAll = true;
  for (const OptimizerFacts &each : getOptimizers())
    if (each.has(key.numbers[0]))
      whose += (whose.empty() ? "`" : ", `") + std::string(each.name) + "`";
    else
      isOfAll = false;
  if (isOfAll)
    return std::string(text);
  return text.empty() ? whose : whose + ": " + std::string(text);
}

/// What the optimizer has for all parameters, and a group for its own, which is
/// the optimizer's where it is not given.
template <typename Owner>
static std::vector<Field<Owner>> getSettings(std::string_view absent = {}) {
  std::vector<Field<Owner>> fields = {
      {"lr", &Owner::lr, kFromZero, "learning rate", {.absent = absent}}};
  static std::deque<std::string> texts; // which fields point to
  for (const OptimizerKey &key : getOptimizerKeys()) {
    const std::string &text = texts.emplace_back(describeKey(key));
    std::string type = key.numbers.size() == 1
                           ? describe(getFacts(key.numbers[0]).range)
                           : "two numbers " + std::string(kBeta.range);
    fields.emplace_back(
        key.key,
        [&key](const Value &value, Owner &owner) {
          readKey(key, value, owner);
        },
        type, absent.empty() ? describeDefault(key) : std::string(absent),
        text);
  }
  return fields;
}

static void readPatterns(const Value &value, OptimizerGroup &group) {
  group.patterns = NameList().read(value);
  for (const std::string &pattern : group.patterns)
    if (pattern.empty())
      value.fail("expected a name or a pattern such as \"*.bias\", found '" +
                 pattern + "'");
}

static const Table<OptimizerGroup> &getGroups() {
  static const Table<OptimizerGroup> table = [] {
    constexpr std::string_view absent = "the optimizer's";
    Table<OptimizerGroup> table = {
        "optimizer.groups",
        {{"params", readPatterns, "pattern, or list of patterns", "needed",
          "whom the group is for"}}};
    for (const auto &each : getSettings<OptimizerGroup>(absent))
      table.fields.push_back(each);
    return table;
  }();
  return table;
}

static void readMasters(const Value &value, OptimizerConfig &optimizer) {
  static constexpr std::string_view words[] = {"float32"};
  value.reader().readChoice(value.node, value.key, words);
  optimizer.holdsMasters = true;
}

static const Table<OptimizerConfig> &getOptimizer() {
  static const Table<OptimizerConfig> table = [] {
    Table<OptimizerConfig> table = {
        "optimizer",
        {{"name", &OptimizerConfig::kind,
          "the class of that name in `torch.optim`, with its defaults"}}};
    for (const auto &each : getSettings<OptimizerConfig>())
      table.fields.push_back(each);
    table.fields.push_back(
        {"state_dtype",
         &OptimizerConfig::stateDType,
         "what the optimizer keeps of each parameter is stored as this; `int8` "
         "and `float8` in blocks of 256 elements, [see "
         "below](#optimizer-states-in-fewer-bytes)",
         {.absent = "the parameter's type"}});
    table.fields.push_back(
        {"master_dtype",
         readMasters,
         "`float32`",
         "",
         "trained parameters of fewer bits are held as this by their ranks, "
         "and "
         "so is what the optimizer keeps of them; they are gathered, computed "
         "with and exported in their own type, [see "
         "below](#parameters-in-float32)",
         {.absent = "the parameter's type"}});
    table.fields.push_back(
        {"stochastic_rounding", &OptimizerConfig::stochasticRounding,
         "new values of parameters in bfloat16 are rounded up or down at "
         "random, so that the mean of many updates is right"});
    table.fields.push_back(
        list("groups", &OptimizerConfig::groups, getGroups(),
             "a list of groups such as {params: \"*.bias\", weight_decay: 0.0}",
             "parameters with settings of their own, [see "
             "below](#parameter-groups)"));
    return table;
  }();
  return table;
}

Field<Config> fsdp::getOptimizerField() {
  return section<Config>("optimizer", &Config::optimizer, getOptimizer(),
                         "what updates the parameters",
                         {.absent = "AdamW with its defaults"},
                         std::function(readOptimizerWord));
}

//===----------------------------------------------------------------------===//
// Schedule of the learning rate
//===----------------------------------------------------------------------===//

static void readShape(const Value &value, plan::ScheduleT &schedule) {
  if (value.node.IsScalar())
    if (std::string_view why = whyNoSchedule(value.node.Scalar()); !why.empty())
      value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                          "'" + value.key + ": " + value.node.Scalar() +
                              "' cannot be had: " + std::string(why));
  schedule.kind = uint8_t(getFormat<ScheduleKind>().read(value));
}

/// A number of a schedule's own; which it may have, its name says.
static Field<plan::ScheduleT> getNumberField(const ScheduleNumberFacts &facts) {
  static std::deque<std::string> texts; // which fields point to
  std::string whose, first, initial;
  for (const ScheduleFacts &each : getSchedules()) {
    const ScheduleFacts::Number *own = each.find(facts.number);
    if (!own)
      continue;
    std::string name = "`" + std::string(each.name) + "`";
    std::string text = own->isNeeded ? "needed"
                       : std::isnan(own->initial)
                           ? ""
                           : "`" + facts.print(own->initial) + "`";
    if (whose.empty())
      first = initial = text;
    else if (text != first)
      initial += "; for " + name + " " + text;
    whose += (whose.empty() ? "" : ", ") + name;
  }
  texts.push_back(whose + ": " + std::string(facts.text));
  return Field<plan::ScheduleT>(
      facts.name,
      [&facts](const Value &value, plan::ScheduleT &schedule) {
        std::string text = value.node.IsScalar() ? value.node.Scalar() : "";
        std::optional<double> number = facts.parse(text);
        if (!number)
          value.failRange("a " + facts.describe());
        setNumber(schedule, facts.number, *number);
      },
      facts.describe(), initial, texts.back(), {.mayBeEmpty = true});
}

static Table<plan::ScheduleT> makeScheduler() {
  using plan::ScheduleT;
  Table<ScheduleT> table = {
      "lr_scheduler",
      {
          {"name", readShape, getFormat<ScheduleKind>().describe(), "needed",
           "the shape of the rate over time"},
          {"warmup_steps", &ScheduleT::warmup_steps, between(0, kMostSteps),
           "steps in which the rate grows from 0"},
          {"warmup_ratio", &ScheduleT::warmup_ratio,
           Number{[](double x) { return x >= 0 && x <= 1; }, "from 0 to 1"},
           "the same as part of the total, rounded up"},
          {"total_steps",
           &ScheduleT::total_steps,
           between(1, kMostSteps, "absent, it is the run's --steps"),
           "steps until the rate is at its end",
           {.absent = "`fsdp-run`'s `--steps`", .mayBeEmpty = true}},
          {"min_lr",
           &ScheduleT::min_lr,
           kFromZero,
           "the rate at the end, of a shape that goes down",
           {.absent = "`0`; for `polynomial` `1e-07`"}},
          {"min_lr_ratio", &ScheduleT::min_lr_ratio,
           Number{[](double x) { return x >= 0 && x <= 1; }, "from 0 to 1"},
           "the same as part of `optimizer.lr`"},
      }};
  for (const ScheduleNumberFacts &each : getScheduleNumbers())
    table.fields.push_back(getNumberField(each));
  return table;
}

static const Table<plan::ScheduleT> &getScheduler() {
  static const Table<plan::ScheduleT> table = makeScheduler();
  return table;
}

Field<Config> fsdp::getSchedulerField() {
  return section<Config>(
      "lr_scheduler", &Config::schedule, getScheduler(),
      "the learning rate over time, [see below](#learning-rate-schedules); a "
      "name alone is that of a map",
      {.absent = "the rate is constant",
       .type = "name, or map",
       .mayBeEmpty = true},
      std::function([](const Value &value, plan::ScheduleT &schedule) {
        getScheduler().find("name")->read(value, schedule);
        value.reading.become("lr_scheduler.name", value.node);
      }));
}
