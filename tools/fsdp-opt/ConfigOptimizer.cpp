//===- ConfigOptimizer.cpp - The optimizer of the config -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/ConfigParser.h"

#include "runtime/plan/Schedule.h"

using namespace fsdp;

void ConfigParser::parseOptimizer(const Node &node) {
  result.config.hasOptimizer = true;
  if (node.IsScalar())
    return parseOptimizerWord(node);
  // First the name, whose defaults the other keys replace.
  if (node.IsMap() && node["name"].IsDefined())
    parseOptimizerName(node["name"]);
  optimizerNode.emplace(node);
  parseSection("optimizer", node);
  checkOptimizer(node);
  checkNesterov();
}

void ConfigParser::parseOptimizerName(const Node &node) {
  static constexpr std::string_view choices[] = {"adamw", "adam", "sgd"};
  OptimizerConfig &optimizer = result.config.optimizer;
  optimizer.name = read.readChoice(node, "name", choices);
  // Among the defaults of torch.optim only this one differs by class.
  if (!optimizerNode)
    optimizer.weightDecay = optimizer.name == "adamw" ? 1e-2 : 0.0;
}

/// Settings of one section that the optimizer of that name does not have.
void ConfigParser::checkOptimizer(const Node &section) {
  const std::string &name = result.config.optimizer.name;
  bool sgd = name == "sgd";
  for (std::string_view key : {"betas", "eps", "momentum", "nesterov"})
    if (given.contains(key) && sgd != (key == "momentum" || key == "nesterov"))
      read.fail(ErrorId::ConfigBadValue, section[std::string(key)],
                "'" + std::string(key) + "' has no meaning for the optimizer " +
                    name);
}

/// As torch.optim.SGD.
void ConfigParser::checkNesterov() {
  const OptimizerConfig &optimizer = result.config.optimizer;
  auto check = [&](bool nesterov, double momentum) {
    if (nesterov && momentum == 0)
      read.fail(ErrorId::ConfigBadValue, *optimizerNode,
                "'nesterov' needs a momentum above 0; give one, or leave "
                "nesterov out");
  };
  check(optimizer.nesterov, optimizer.momentum);
  for (const OptimizerGroup &each : optimizer.groups)
    check(each.nesterov.value_or(optimizer.nesterov),
          each.momentum.value_or(optimizer.momentum));
}

template <typename T>
void ConfigParser::set(T OptimizerConfig::*ofAll,
                       std::optional<T> OptimizerGroup::*ofGroup, T value) {
  if (group)
    group->*ofGroup = value;
  else
    result.config.optimizer.*ofAll = value;
}

void ConfigParser::parseLr(const Node &node) {
  set(&OptimizerConfig::lr, &OptimizerGroup::lr, readAmount(node, "lr"));
}

double ConfigParser::readBeta(const Node &node, std::string_view key) {
  double beta = read.readDouble(node, key);
  if (beta < 0 || beta >= 1)
    read.fail(ErrorId::ConfigBadValue, node,
              "'" + std::string(key) +
                  "': expected a number from 0 to less than 1, found " +
                  node.Scalar());
  return beta;
}

void ConfigParser::parseBetas(const Node &node) {
  if (!node.IsSequence() || node.size() != 2)
    read.failType(node, "betas", "a list of two numbers such as [0.9, 0.999]");
  double betas[] = {readBeta(node[0], "betas"), readBeta(node[1], "betas")};
  set(&OptimizerConfig::beta1, &OptimizerGroup::beta1, betas[0]);
  set(&OptimizerConfig::beta2, &OptimizerGroup::beta2, betas[1]);
}

void ConfigParser::parseEps(const Node &node) {
  set(&OptimizerConfig::eps, &OptimizerGroup::eps, readAmount(node, "eps"));
}

void ConfigParser::parseMomentum(const Node &node) {
  set(&OptimizerConfig::momentum, &OptimizerGroup::momentum,
      readAmount(node, "momentum"));
}

void ConfigParser::parseNesterov(const Node &node) {
  set(&OptimizerConfig::nesterov, &OptimizerGroup::nesterov,
      read.readBool(node, "nesterov"));
}

void ConfigParser::parseWeightDecay(const Node &node) {
  set(&OptimizerConfig::weightDecay, &OptimizerGroup::weightDecay,
      readAmount(node, "weight_decay"));
}

//===----------------------------------------------------------------------===//
// Parameter groups
//===----------------------------------------------------------------------===//

void ConfigParser::parseGroups(const Node &node) {
  if (node.IsNull())
    return;
  if (!node.IsSequence())
    read.failType(node, "groups",
                  "a list of groups such as {params: \"*.bias\", "
                  "weight_decay: 0.0}");
  for (const Node &item : node) {
    group = &result.config.optimizer.groups.emplace_back();
    parseSection("optimizer.groups", item);
    if (group->patterns.empty())
      read.fail(ErrorId::ConfigMissingKey, item,
                "a group of the optimizer needs params: a pattern of names "
                "such as \"*.bias\", or a list of them");
    checkOptimizer(item);
    group = nullptr;
  }
}

void ConfigParser::parseGroupParams(const Node &node) {
  group->patterns = read.readStrings(node, "params");
  for (const std::string &pattern : group->patterns)
    if (pattern.empty() || pattern.find('|') != std::string::npos)
      read.fail(ErrorId::ConfigBadValue, node,
                "'params': expected a name or a pattern such as \"*.bias\", "
                "found '" +
                    pattern + "'");
}

//===----------------------------------------------------------------------===//
// Schedule of the learning rate
//===----------------------------------------------------------------------===//

void ConfigParser::parseScheduler(const Node &node) {
  if (node.IsNull())
    return;
  schedulerNode.emplace(node);
  result.config.schedule.emplace();
  if (node.IsScalar())
    parseSchedulerName(node);
  else
    parseSection("lr_scheduler", node);
  if (schedulerName.empty())
    read.fail(ErrorId::ConfigMissingKey, node,
              "'lr_scheduler' needs a name such as cosine");
}

void ConfigParser::parseSchedulerName(const Node &node) {
  schedulerName = read.readChoice(node, "lr_scheduler", getScheduleNames());
  result.config.schedule->kind = getScheduleKind(schedulerName);
}

void ConfigParser::parseWarmupSteps(const Node &node) {
  result.config.schedule->warmup_steps =
      static_cast<uint64_t>(readCount(node, "warmup_steps"));
}

void ConfigParser::parseWarmupRatio(const Node &node) {
  result.config.schedule->warmup_ratio = readAmount(node, "warmup_ratio");
}

void ConfigParser::parseTotalSteps(const Node &node) {
  if (node.IsNull())
    return;
  int64_t steps = read.readInt(node, "total_steps");
  if (steps < 1)
    read.fail(ErrorId::ConfigBadValue, node,
              "'total_steps': expected a number from 1, found " +
                  node.Scalar() + "; absent, it is the run's --steps");
  result.config.schedule->total_steps = readPositive(node, "total_steps");
}

void ConfigParser::parseMinLr(const Node &node) {
  result.config.schedule->min_lr = readAmount(node, "min_lr");
}

/// Once the optimizer's rate is known, too.
void ConfigParser::checkScheduler() {
  mergeSchedule();
  if (!result.config.schedule)
    return;
  if (std::optional<std::string> problem = checkSchedule(
          schedulerName, *result.config.schedule, result.config.optimizer.lr))
    read.fail(ErrorId::ConfigBadValue, *schedulerNode,
              "'lr_scheduler': " + *problem);
}
