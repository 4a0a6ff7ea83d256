//===- ConfigPrecision.cpp - Dtypes of the config file --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/ConfigParser.h"

#include <cmath>

using namespace fsdp;
using YAML::Node;

void ConfigParser::parseMixedPrecision(const Node &node) {
  policy = &result.config.precision.policy;
  parseSection("fsdp_config.mixed_precision", node);
}

std::string ConfigParser::readDtype(const Node &node, std::string_view key) {
  static constexpr std::string_view choices[] = {"bfloat16", "float16",
                                                 "float32", "float64"};
  return node.IsNull() ? std::string() : read.readChoice(node, key, choices);
}

void ConfigParser::parseParamDtype(const Node &node) {
  policy->paramDtype = readDtype(node, "param_dtype");
}

void ConfigParser::parseReduceDtype(const Node &node) {
  policy->reduceDtype = readDtype(node, "reduce_dtype");
}

void ConfigParser::parseOutputDtype(const Node &node) {
  policy->outputDtype = readDtype(node, "output_dtype");
}

void ConfigParser::parseCastInputs(const Node &node) {
  policy->castForwardInputs = read.readBool(node, "cast_forward_inputs");
}

void ConfigParser::parseDivideFactor(const Node &node) {
  if (node.IsNull())
    return;
  double factor = read.readDouble(node, "gradient_divide_factor");
  if (!std::isfinite(factor) || factor <= 0)
    read.fail(ErrorId::ConfigBadValue, node,
              "'gradient_divide_factor': expected a number above 0, found " +
                  node.Scalar() + "; leave it out for the number of ranks");
  result.config.gradientDivideFactor = factor;
}

void ConfigParser::parseForceSum(const Node &node) {
  result.config.forceSumReduction = read.readBool(node, "force_sum_reduction");
}

void ConfigParser::parseDivision(const Node &node) {
  static constexpr std::string_view choices[] = {"reduction", "optimizer"};
  result.config.divideInOptimizer =
      read.readChoice(node, "gradient_division", choices) == choices[1];
}

/// Behind all keys, which may come in any order.
void ConfigParser::checkDivision() {
  const Config &config = result.config;
  if (config.divideInOptimizer.value_or(false) && config.forceSumReduction)
    read.fail(ErrorId::ConfigBadValue, (*fsdpNode)["gradient_division"],
              "'gradient_division: optimizer' and 'force_sum_reduction: true' "
              "both sum gradients, but divide them at different places; leave "
              "one of them out");
}

void ConfigParser::parseOverrides(const Node &node) {
  if (node.IsNull())
    return;
  if (!node.IsSequence())
    read.failType(node, "overrides",
                  "a list of maps such as {modules: \"*norm*\", "
                  "mixed_precision: {param_dtype: float32}}");
  inOverride = true;
  for (const Node item : node) {
    ModuleOverride &override = result.config.overrides.emplace_back();
    override.place = read.describePlace(item);
    parseSection("fsdp_config.overrides", item);
    if (override.modules.empty())
      read.fail(ErrorId::ConfigMissingKey, item,
                "an override needs modules: patterns of the paths of the "
                "modules that it is for");
  }
  inOverride = false;
  for (const ModuleOverride &override : result.config.overrides)
    if (override.precision)
      result.config.precision.overrides.push_back(
          {override.modules, *override.precision});
}

void ConfigParser::parseOverrideModules(const Node &node) {
  result.config.overrides.back().modules = read.readStrings(node, "modules");
}

void ConfigParser::parseOverridePrecision(const Node &node) {
  policy = &result.config.overrides.back().precision.emplace();
  parseSection("fsdp_config.mixed_precision", node);
}

void ConfigParser::parseOverrideReshard(const Node &node) {
  if (node.IsNull())
    return;
  std::string &reshard = result.config.overrides.back().reshard;
  if (std::optional<int64_t> ranks = readReshardRanks(node))
    reshard = std::to_string(*ranks);
  else
    reshard = read.readBool(node, "reshard_after_forward") ? "true" : "false";
}
