//===- WeightFields.cpp - First values in the config ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <regex>
#include <set>
#include <stdexcept>

using namespace fsdp;

static void readInit(const Value &value, Config &config) {
  const YamlReader &read = value.reader();
  const YAML::Node &node = value.node;
  if (!node.IsMap())
    value.failType(
        "a map of names and initialisers such as {\"*.bias\": zeros}");
  for (auto entry = node.begin(); entry != node.end(); ++entry) {
    const YAML::Node name = entry->first;
    std::string pattern = read.readString(name, value.key);
    std::string text = read.readString(entry->second, pattern);
    // In {a: normal(0, 1)} YAML takes the comma for the end of the value and
    // what follows for keys without a value.
    while (std::ranges::count(text, '(') > std::ranges::count(text, ')')) {
      auto next = std::next(entry);
      if (next == node.end() || !next->first.IsScalar() ||
          !next->second.IsNull())
        break;
      text += ", " + next->first.Scalar();
      entry = next;
    }
    try {
      config.init.push_back(
          {pattern, parseInitCall(text), read.describePlace(name)});
    } catch (const std::invalid_argument &error) {
      read.fail(ErrorId::ConfigBadValue, name,
                "'init' of '" + pattern + "': " + error.what());
    }
  }
}

static void readRename(const Value &value, WeightsConfig &weights) {
  const YamlReader &read = value.reader();
  if (!value.node.IsSequence())
    value.failType("a list of rules such as {from: \"^net[.]\", to: \"\"}");
  for (const auto &item : value.node) {
    if (!item.IsMap() || item.size() != 2 || !item["from"].IsDefined() ||
        !item["to"].IsDefined() || !item["to"].IsScalar())
      read.failType(item, value.key, "a rule of 'from' and 'to'");
    RenameRule rule{read.readString(item["from"], "from"), item["to"].Scalar()};
    try {
      std::regex check(rule.from);
    } catch (const std::regex_error &error) {
      read.fail(ErrorId::ConfigBadValue, item["from"],
                "'from': '" + rule.from +
                    "' is no regular expression: " + error.what());
    }
    weights.rename.push_back(std::move(rule));
  }
}

static const Table<WeightsConfig> &getWeights() {
  static const Table<WeightsConfig> table = {
      "weights",
      {
          {"rename", readRename, "list of `{from, to}`", "",
           "maps names of the model to names of the files: `from` is a regular "
           "expression (ECMAScript, searched for), `to` may refer to groups as "
           "`$1`. The first rule that matches counts"},
          {"ignore", &WeightsConfig::ignore, NameList{"pattern"},
           "tensors of the files that count as absent"},
          {"strict", &WeightsConfig::strict,
           "false: parameters that are not in the files keep the data of the "
           "model file"},
      }};
  return table;
}

static void readTied(const Value &value, Config &config) {
  const YamlReader &read = value.reader();
  std::set<std::string> seen;
  if (!value.node.IsSequence())
    value.failType("a list of lists of names");
  for (const auto &group : value.node) {
    if (!group.IsSequence() || group.size() < 2)
      read.failType(group, value.key, "a list of two or more names");
    std::vector<std::string> &names = config.ties.emplace_back();
    for (const auto &item : group) {
      names.push_back(read.readString(item, value.key));
      if (!seen.insert(names.back()).second)
        read.fail(ErrorId::ConfigBadValue, item,
                  "'tied': '" + names.back() + "' stands twice; keep one");
    }
  }
}

std::vector<Field<Config>> fsdp::getWeightFields() {
  return {
      {"init",
       readInit,
       "map of patterns and initialisers",
       "",
       "parameters that start from these, whatever data they have: "
       "`{\"*.weight\": normal(0, 0.02), \"*norm*\": ones}`. The last rule "
       "that matches counts",
       {.mayBeEmpty = true}},
      section<Config>("weights", &Config::weights, getWeights(),
                      "how the files of `--weights` are read"),
      {"tied",
       readTied,
       "list of lists of names",
       "",
       "names that are one tensor, for models exported without data",
       {.mayBeEmpty = true}},
  };
}
