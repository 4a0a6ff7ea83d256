//===- OptimizerFields.cpp - optimizer and lr_scheduler of the config -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/Tables.h"

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

template <typename Owner>
static void readBetas(const Value &value, Owner &owner) {
  const YAML::Node &node = value.node;
  if (!node.IsSequence() || node.size() != 2)
    value.failType("a list of two numbers such as [0.9, 0.999]");
  auto read = [&](size_t i) {
    std::string path = value.path + "[" + std::to_string(i) + "]";
    value.reading.take(path, *value.reading.find(value.path));
    return kBeta.read({value.reading, path, value.key, node[i]});
  };
  owner.beta1 = read(0);
  owner.beta2 = read(1);
}

/// What the optimizer has for all parameters, and a group for its own.
template <typename Owner>
static std::vector<Field<Owner>>
getSettings(std::string_view betas, std::string_view decay, Extra extra = {}) {
  return {
      {"lr", &Owner::lr, kFromZero, "learning rate", extra},
      {"betas", readBetas<Owner>, "two numbers from 0 to less than 1", betas,
       "`adamw`, `adam`: decays of the averages of gradients and of their "
       "squares"},
      {"eps", &Owner::eps, kFromZero,
       "`adamw`, `adam`: added to what an update is divided by", extra},
      {"momentum", &Owner::momentum, kFromZero, "`sgd`", extra},
      {"nesterov", &Owner::nesterov, "`sgd`: Nesterov's momentum", extra},
      {"weight_decay",
       &Owner::weightDecay,
       kFromZero,
       "of the parameters themselves with `adamw`; added to the gradients with "
       "`adam` and `sgd`",
       {.absent = decay}},
  };
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
    for (const auto &each :
         getSettings<OptimizerGroup>(absent, absent, {.absent = absent}))
      table.fields.push_back(each);
    return table;
  }();
  return table;
}

static const Table<OptimizerConfig> &getOptimizer() {
  static const Table<OptimizerConfig> table = [] {
    OptimizerConfig initial;
    static const std::string betas = "`[" + printNumber(initial.beta1) + ", " +
                                     printNumber(initial.beta2) + "]`",
                             decay = "`" + printNumber(initial.weightDecay) +
                                     "` for `adamw`, else `0`";
    Table<OptimizerConfig> table = {
        "optimizer",
        {{"name", &OptimizerConfig::name, oneOf({"adamw", "adam", "sgd"}),
          "the class of that name in `torch.optim`, with its defaults"}}};
    for (const auto &each : getSettings<OptimizerConfig>(betas, decay))
      table.fields.push_back(each);
    table.fields.push_back(
        {"state_dtype",
         &OptimizerConfig::stateDType,
         "what the optimizer keeps of each parameter is stored as this; `int8` "
         "and `float8` in blocks of 256 elements, [see "
         "below](#optimizer-states-in-fewer-bytes)",
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

static const Table<plan::ScheduleT> &getScheduler() {
  using plan::ScheduleT;
  static const Table<ScheduleT> table = {
      "lr_scheduler",
      {
          {"name",
           &ScheduleT::kind,
           "the shape of the rate over time",
           {.absent = "needed"}},
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
          {"min_lr", &ScheduleT::min_lr, kFromZero,
           "`linear`, `cosine`, `cosine_with_min_lr`: the rate at the end"},
      }};
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
      }));
}
