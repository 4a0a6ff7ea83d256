//===- ForeignKeys.cpp - Keys of other tools' config files ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/ForeignKeys.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

std::span<const ForeignKey> fsdp::getForeignKeys() {
  static const std::vector<ForeignKey> all = [] {
    std::vector<ForeignKey> all;
    for (auto part : {foreign::getStepKeys(), foreign::getShardingKeys(),
                      foreign::getAdapterKeys(), foreign::getQuantizeKeys(),
                      foreign::getModelKeys(), foreign::getDataKeys(),
                      foreign::getRunKeys(), foreign::getTorchtitanKeys(),
                      foreign::getDeepSpeedKeys()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return all;
}

std::vector<std::string> fsdp::listNames(const ForeignKey &key) {
  std::istringstream names{std::string(key.names)};
  return {std::istream_iterator<std::string>(names), {}};
}

std::string fsdp::describeTools(unsigned tools) {
  static constexpr std::pair<Tool, std::string_view> names[] = {
      {Axolotl, "Axolotl"},
      {Accelerate, "Accelerate"},
      {Transformers, "transformers"},
      {Torchtitan, "torchtitan"},
      {LlamaFactory, "LLaMA-Factory"},
      {Trl, "TRL"},
      {DeepSpeed, "DeepSpeed"}};
  std::string text;
  for (auto [tool, name] : names)
    if (tools & tool)
      text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

namespace {
struct Rows {
  const ForeignKey *plain = nullptr;
  std::vector<const ForeignKey *> conditional;
};
using Index = std::map<std::pair<std::string, std::string>, Rows>;

const Index &getIndex() {
  static const Index index = [] {
    Index index;
    for (const ForeignKey &key : getForeignKeys())
      for (const std::string &name : listNames(key)) {
        Rows &rows = index[{std::string(key.section), name}];
        if (key.when)
          rows.conditional.push_back(&key);
        else if (!rows.plain)
          rows.plain = &key;
      }
    return index;
  }();
  return index;
}
} // namespace

const ForeignKey *fsdp::findForeignKey(std::string_view section,
                                       std::string_view own,
                                       std::string_view written) {
  for (std::string_view name : {own, written})
    if (auto it = getIndex().find({std::string(section), std::string(name)});
        it != getIndex().end() && it->second.plain)
      return it->second.plain;
  return nullptr;
}

const ForeignKey *fsdp::findForeignKeyOf(const YAML::Node &value,
                                         std::string_view section,
                                         std::string_view own) {
  auto it = getIndex().find({std::string(section), std::string(own)});
  if (it == getIndex().end())
    return nullptr;
  for (const ForeignKey *key : it->second.conditional)
    if (key->when(value))
      return key;
  return nullptr;
}

std::string_view fsdp::getForeignPrefix(std::string_view section) {
  if (section == "fsdp_config")
    return "fsdp_";
  for (const ForeignKey &key : getForeignKeys())
    if (!key.prefix.empty() && joinPath(key.section, key.names) == section)
      return key.prefix;
  return {};
}

//===----------------------------------------------------------------------===//
// What is said
//===----------------------------------------------------------------------===//

bool fsdp::isOff(const YAML::Node &value) {
  static constexpr std::string_view words[] = {"",   "false", "False", "FALSE",
                                               "0",  "0.0",   "no",    "No",
                                               "NO", "none",  "None",  "off"};
  return value && value.IsScalar() &&
         std::ranges::find(words, value.Scalar()) != std::end(words);
}

bool fsdp::isEnabled(const YAML::Node &value) {
  if (!value || !value.IsMap())
    return false;
  YAML::Node enabled = value["enabled"];
  return enabled && !enabled.IsNull() && !isOff(enabled) && !isAuto(enabled);
}

bool fsdp::isAuto(const YAML::Node &value) {
  return value && value.IsScalar() && value.Scalar() == "auto";
}

/// Whether a value asks for nothing of a key that is not taken.
static bool asksForNothing(const ForeignKey &key, const YAML::Node &value) {
  if (value.IsNull() ||
      ((value.IsMap() || value.IsSequence()) && !value.size()))
    return true;
  switch (key.action) {
  case ForeignKey::Moved:
    return false;
  case ForeignKey::RefusedAboveOne:
    return isOff(value) || (value.IsScalar() && value.Scalar() == "1");
  case ForeignKey::Refused:
    return isOff(value) || (value.IsScalar() && value.Scalar() == "constant");
  case ForeignKey::RefusedIfEnabled:
    return value.IsMap() ? !isEnabled(value) : isOff(value);
  default:
    return isOff(value);
  }
}

void fsdp::reportForeign(Reading &reading, const ForeignKey &key,
                         const Given &entry) {
  if (asksForNothing(key, entry.value))
    return reading.classify(KeyOutcome::Nothing, "asks for nothing");
  std::string quoted = "'" + entry.name.Scalar() + "' ";
  std::string text(key.text);
  switch (key.action) {
  case ForeignKey::Taken:
  case ForeignKey::Section:
    break;
  case ForeignKey::Ignored:
    reading.classify(KeyOutcome::PassedOver, text);
    return reading.addMinor(
        entry.name, quoted + "has no meaning here and is ignored: " + text);
  case ForeignKey::Noted:
    reading.classify(KeyOutcome::PassedOver, text);
    return reading.addNote(entry.name, quoted + text);
  case ForeignKey::Changes:
    reading.classify(KeyOutcome::Warned, text);
    return reading.addWarning(entry.name,
                              quoted + "is not taken from here: " + text);
  case ForeignKey::Moved:
  case ForeignKey::Refused:
  case ForeignKey::RefusedAboveOne:
  case ForeignKey::RefusedIfEnabled:
    bool isSentence = key.text.starts_with("is ");
    reading.read.fail(ErrorId::ConfigNotSupported, entry.name,
                      quoted + (isSentence ? "" : "cannot be had: ") + text);
  }
}
