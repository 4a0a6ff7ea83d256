//===- StepChecks.cpp - What keys of the step and its data say together ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Schedule.h"
#include "plan/TokenFormats.h"
#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Foreign.h"

#include <algorithm>

using namespace fsdp;

static std::string atGroup(size_t i) {
  return "optimizer.groups[" + std::to_string(i) + "]";
}

//===----------------------------------------------------------------------===//
// Optimizer and schedule
//===----------------------------------------------------------------------===//

/// A weight decay that is not given is 0 by transformers' names.
static void completeOptimizer(Reading &reading) {
  Config &config = reading.result.config;
  const Given *key = reading.find("optimizer");
  config.hasOptimizer = key;
  bool isWord = key && key->value.IsScalar();
  if (isWord && !reading.find("optimizer.lr"))
    reading.refuse("optimizer",
                   "'" + key->name.Scalar() + ": " + key->value.Scalar() +
                       "' needs learning_rate: a number",
                   ErrorId::ConfigMissingKey);
  applyPaging(reading);
  if (!isWord || reading.find("optimizer.weight_decay"))
    return;
  config.optimizer.numbers[OptimizerNumber::weight_decay] = 0;
  reading.becomeValue("optimizer.weight_decay", 0);
}

/// Settings that the optimizer of that name does not have.
static void checkSettings(Reading &reading) {
  const OptimizerConfig &optimizer = reading.result.config.optimizer;
  const OptimizerFacts &facts = getFacts(optimizer.kind);
  auto check = [&](const std::string &section) {
    for (const auto &[key, numbers] : getOptimizerKeys()) {
      std::string path = joinPath(section, key);
      const Given *given = reading.find(path);
      if (given && !given->isForeign && !facts.has(numbers.front()))
        reading.refuse(path, reading.quote(path) +
                                 " has no meaning for the optimizer " +
                                 std::string(facts.name));
    }
  };
  check("optimizer");
  for (size_t i = 0; i < optimizer.groups.size(); ++i)
    check(atGroup(i));
}

static void checkGroups(Reading &reading) {
  const std::vector<OptimizerGroup> &groups =
      reading.result.config.optimizer.groups;
  for (size_t i = 0; i < groups.size(); ++i)
    if (groups[i].patterns.empty())
      reading.refuse(atGroup(i),
                     "a group of the optimizer needs params: a pattern of "
                     "names such as \"*.bias\", or a list of them",
                     ErrorId::ConfigMissingKey);
}

/// As torch.optim.SGD.
static void checkNesterov(Reading &reading) {
  const OptimizerConfig &optimizer = reading.result.config.optimizer;
  auto check = [&](const OptimizerNumbers &numbers) {
    if (numbers[OptimizerNumber::nesterov] != 0 &&
        numbers[OptimizerNumber::momentum] == 0)
      reading.refuse("optimizer", "'nesterov' needs a momentum above 0; give "
                                  "one, or leave nesterov out");
  };
  check(optimizer.getNumbers());
  for (const OptimizerGroup &each : optimizer.groups)
    check(optimizer.getNumbers(&each));
}

std::string fsdp::getScheduleName(const Reading &reading) {
  const Given *section = reading.find("lr_scheduler");
  if (section && section->value.IsScalar())
    return section->value.Scalar();
  const Given *name = reading.find("lr_scheduler.name");
  return name ? name->value.Scalar() : "";
}

static void checkScheduler(Reading &reading) {
  mergeSchedule(reading);
  const Config &config = reading.result.config;
  if (!config.schedule)
    return;
  std::string name = getScheduleName(reading);
  if (name.empty())
    reading.refuse("lr_scheduler", "'lr_scheduler' needs a name such as cosine",
                   ErrorId::ConfigMissingKey);
  if (std::optional<std::string> problem =
          checkSchedule(name, *config.schedule, config.optimizer.lr))
    reading.refuse("lr_scheduler", "'lr_scheduler': " + *problem);
}

//===----------------------------------------------------------------------===//
// Adapters
//===----------------------------------------------------------------------===//

/// What cannot be had of some adapters.
static void checkAdapter(Reading &reading) {
  const Config &config = reading.result.config;
  if (!config.adapter)
    return;
  if (config.optimizer.holdsMasters)
    reading.refuse("adapter",
                   "'adapter' has matrices of float32 already, beside a base "
                   "that is not trained; leave out optimizer.master_dtype",
                   ErrorId::ConfigNotSupported);
  const AdapterRequest &asked = config.adapter->request;
  auto refuse = [&](const char *what) {
    reading.refuse("adapter", std::string("'adapter': ") + what,
                   ErrorId::ConfigNotSupported);
  };
  if (asked.init == AdapterInit::Loftq && !config.quantize)
    refuse("init: loftq begins with what quantize loses; write quantize: "
           "{kind: nf4}, or leave init out");
  if (asked.parameters.empty())
    return;
  if (asked.dropout > 0)
    refuse("parameters are adapted by themselves, where nothing can be "
           "dropped; leave out dropout or parameters");
  if (asked.hasMagnitudes || asked.init == AdapterInit::Pissa ||
      asked.init == AdapterInit::Loftq)
    refuse("parameters has neither dora nor init: pissa or loftq; leave out "
           "these, or parameters");
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// A scale that changes tries how far it can go: overflows are part of that.
static void completePolicy(Reading &reading) {
  Config &config = reading.result.config;
  if (!config.lossScale || config.lossScale->growthInterval == 0)
    return;
  if (!reading.find("on_nonfinite"))
    config.onNonFinite = plan::NonFinite::skip;
}

/// One file may serve training and inference: what only training needs does not
/// disturb.
static void checkMode(Reading &reading) {
  if (reading.result.config.mode != Mode::Inference)
    return;
  for (const char *key :
       {"optimizer", "lr_scheduler", "max_grad_norm",
        "gradient_accumulation_steps", "eval", "on_nonfinite", "loss_scale",
        "ema", "metrics", "neftune_noise_alpha"})
    reading.noteWithoutEffect(key, "mode: inference");
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

static void checkData(Reading &reading) {
  Config &config = reading.result.config;
  if (!config.data)
    return;
  // Other tools' files name no more of it than epochs.
  const Given *key = reading.find("data");
  if (!key)
    key = reading.find("data.epochs");
  config.data->place = reading.read.describePlace(key->value);
  const plan::DataT &data = config.data->data;
  bool hasTokens = reading.find("data.tokens");
  bool hasSamples = reading.find("data.samples");
  if (hasTokens && hasSamples)
    reading.refuse("data", "'data' has both 'tokens' and 'samples'; keep one");
  if (hasTokens && data.inputs.empty())
    reading.refuse("data",
                   "'data' has 'tokens' and no 'inputs': the names of the "
                   "model's inputs that take them",
                   ErrorId::ConfigMissingKey);
  for (const char *path :
       {"data.format", "data.dtype", "data.inputs", "data.targets"})
    if (hasSamples && reading.find(path))
      reading.refuse(path, reading.quote(path) +
                               " says how 'tokens' are read, and 'data' has "
                               "'samples'; take it out");
  if (!data.targets.empty() && data.inputs.empty())
    reading.refuse("data.targets",
                   "'targets' are the tokens behind those of 'inputs', which "
                   "is missing",
                   ErrorId::ConfigMissingKey);
  for (const std::string &target : data.targets)
    if (std::ranges::count(data.inputs, target))
      reading.refuse("data.targets",
                     "'" + target +
                         "' is among 'inputs' and 'targets'; keep one");
}

static void checkLengths(Reading &reading) {
  if (!reading.result.config.data)
    return;
  const plan::DataT &data = reading.result.config.data->data;
  if (data.length_pool % data.length_group != 0)
    reading.refuse("data.length_pool",
                   reading.quote("data.length_pool") +
                       " is sorted and cut into groups of " +
                       std::to_string(data.length_group) +
                       " rows ('length_group'); expected a multiple of it, "
                       "found " +
                       std::to_string(data.length_pool));
  if (reading.find("data.length_group") && data.length_pool == 0)
    reading.noteWithoutEffect("data.length_group",
                              "without 'length_pool' rows are not sorted");
  // Either would train, with other numbers.
  if (reading.find("data.label_count") && !reading.find("data.shifts_labels"))
    reading.refuse("data.label_count",
                   reading.quote("data.label_count") +
                       " counts labels, and nothing says whether the model "
                       "leaves out the first one of each row; say "
                       "'shifts_labels: true' (transformers' causal language "
                       "models) or 'shifts_labels: false'",
                   ErrorId::ConfigMissingKey);
  if (!reading.find("data.label_count"))
    reading.noteWithoutEffect("data.shifts_labels",
                              "without 'label_count' no labels are counted");
}

static void checkEpochs(Reading &reading) {
  const Given *epochs = reading.find("data.epochs");
  const Given *steps = reading.find("lr_scheduler.total_steps");
  if (epochs && epochs->isForeign && steps && steps->isForeign &&
      steps->value.as<int64_t>(0) > 0) {
    reading.result.config.data->data.epochs = 0;
    reading.addMinor(epochs->value,
                     "'max_steps' says how long to train where epochs are "
                     "given, too, as in transformers");
  }
  const Given *key = reading.find("data.drop_last");
  if (key && !reading.find("data.epochs"))
    reading.addNote(key->value,
                    "'drop_last' has no effect without 'epochs': epochs follow "
                    "one another without a gap");
}

static void checkEval(Reading &reading) {
  // An empty section is for programs that give the batches, or --eval-data.
  if ((reading.find("eval.every") || reading.find("eval.batches")) &&
      reading.result.config.validation->files.empty())
    reading.refuse("eval",
                   "'eval' has no 'data': the files to compute the loss over",
                   ErrorId::ConfigMissingKey);
}

static void checkEvalInputs(Reading &reading) {
  const Config &config = reading.result.config;
  if (config.validation && !config.validation->files.empty() &&
      !isSamplesFile(config.validation->files.front()) &&
      !(config.data && !config.data->data.inputs.empty()))
    reading.refuse("eval",
                   "'eval' names token files, and no key 'inputs' of 'data' "
                   "says which inputs take them",
                   ErrorId::ConfigMissingKey);
}

static void checkEma(Reading &reading) {
  std::optional<EmaConfig> &ema = reading.result.config.ema;
  // torchtitan's: a section that is not asked for.
  YAML::Node section = reading.root["ema"];
  if (section && section.IsMap() && section["enable"]) {
    if (!section["enable"].as<bool>(true))
      ema.reset();
    else if (!reading.find("ema.decay"))
      reading.refuse("ema",
                     "torchtitan's decay grows with the steps where 'ema' says "
                     "none, which cannot be had; write ema: {decay: …}",
                     ErrorId::ConfigNotSupported);
    else
      reading.addNote(section["enable"],
                      "averages begin as what the first update leaves, not as "
                      "torchtitan's with the first weights");
  }
  if (ema && ema->warmup != plan::AverageWarmup::power)
    for (const char *path : {"ema.warmup_gamma", "ema.warmup_power"})
      reading.noteWithoutEffect(path, "it is of 'warmup: power'");
}

/// Where the numbers of optimizers are.
static std::vector<std::string_view> getNumberPaths() {
  static const std::vector<std::string> paths = [] {
    std::vector<std::string> paths{"optimizer.name", "optimizer.groups"};
    for (const OptimizerKey &each : getOptimizerKeys())
      paths.push_back(joinPath("optimizer", each.key));
    return paths;
  }();
  return {paths.begin(), paths.end()};
}

std::span<const Check> fsdp::getStepChecks() {
  static const Check all[] = {
      {{"optimizer.lr", "optimizer.name", "optimizer.weight_decay"},
       completeOptimizer},
      {getNumberPaths(), checkSettings},
      {{"optimizer.groups"}, checkGroups},
      {{"optimizer.nesterov", "optimizer.momentum", "optimizer.name",
        "optimizer.groups"},
       checkNesterov},
      {{"lr_scheduler", "optimizer.lr"}, checkScheduler},
      {{"adapter", "quantize", "optimizer.master_dtype"}, checkAdapter},
      {{"on_nonfinite", "loss_scale"}, completePolicy},
      {{"mode"}, checkMode},
      {{"ema", "ema.warmup"}, checkEma},
      {{"data"}, checkData},
      {{"data"}, checkLengths},
      {{"data.drop_last", "data.epochs"}, checkEpochs},
      {{"eval"}, checkEval},
      {{"eval", "data"}, checkEvalInputs},
  };
  return all;
}
