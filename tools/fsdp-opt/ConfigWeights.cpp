//===- ConfigWeights.cpp - First values in the config --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/ConfigParser.h"

#include <algorithm>
#include <regex>
#include <stdexcept>

using namespace fsdp;

void ConfigParser::parseInit(const Node &node) {
  if (node.IsNull())
    return;
  if (!node.IsMap())
    read.failType(
        node, "init",
        "a map of names and initialisers such as {\"*.bias\": zeros}");
  for (auto entry = node.begin(); entry != node.end(); ++entry) {
    const Node name = entry->first;
    std::string pattern = read.readString(name, "init");
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
      result.config.init.push_back(
          {pattern, parseInitCall(text), read.describePlace(name)});
    } catch (const std::invalid_argument &error) {
      read.fail(ErrorId::ConfigBadValue, name,
                "'init' of '" + pattern + "': " + error.what());
    }
  }
}

void ConfigParser::parseWeights(const Node &node) {
  parseSection("weights", node);
}

void ConfigParser::parseRename(const Node &node) {
  if (!node.IsSequence())
    read.failType(node, "rename",
                  "a list of rules such as {from: \"^net[.]\", to: \"\"}");
  for (const Node &item : node) {
    if (!item.IsMap() || item.size() != 2 || !item["from"].IsDefined() ||
        !item["to"].IsDefined() || !item["to"].IsScalar())
      read.failType(item, "rename", "a rule of 'from' and 'to'");
    RenameRule rule{read.readString(item["from"], "from"), item["to"].Scalar()};
    try {
      std::regex check(rule.from);
    } catch (const std::regex_error &error) {
      read.fail(ErrorId::ConfigBadValue, item["from"],
                "'from': '" + rule.from +
                    "' is no regular expression: " + error.what());
    }
    result.config.weights.rename.push_back(std::move(rule));
  }
}

void ConfigParser::parseIgnore(const Node &node) {
  result.config.weights.ignore = read.readStrings(node, "ignore");
}

void ConfigParser::parseStrict(const Node &node) {
  result.config.weights.strict = read.readBool(node, "strict");
}

void ConfigParser::parseTied(const Node &node) {
  if (node.IsNull())
    return;
  std::set<std::string> seen;
  if (!node.IsSequence())
    read.failType(node, "tied", "a list of lists of names");
  for (const Node &group : node) {
    if (!group.IsSequence() || group.size() < 2)
      read.failType(group, "tied", "a list of two or more names");
    std::vector<std::string> &names = result.config.ties.emplace_back();
    for (const Node &item : group) {
      names.push_back(read.readString(item, "tied"));
      if (!seen.insert(names.back()).second)
        read.fail(ErrorId::ConfigBadValue, item,
                  "'tied': '" + names.back() + "' stands twice; keep one");
    }
  }
}
