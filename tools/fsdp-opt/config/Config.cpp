//===- Config.cpp - How to shard and train -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Config.h"

#include "plan/Grains.h"
#include "support/yaml/Toml.h"
#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Foreign.h"
#include "tools/fsdp-opt/config/ForeignDeepSpeed.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>

using namespace fsdp;

const std::vector<Chapter> &fsdp::getChapters() {
  static const std::vector<Chapter> chapters = {
      {"ranks", {"", getRankFields()}},
      {"sharding", {"", getShardingFields()}},
      {"step", {"", getStepFields()}},
      {"data", {"", getDataFields()}},
      {"weights", {"", getWeightFields()}},
  };
  return chapters;
}

const Table<Config> &fsdp::getTopLevel() {
  static const Table<Config> table = [] {
    Table<Config> all;
    for (const Chapter &chapter : getChapters())
      for (const Field<Config> &field : chapter.table.fields)
        all.fields.push_back(field);
    return all;
  }();
  return table;
}

bool Config::setWorldSize(int64_t world) {
  int64_t others = dpReplicate * cp * tp;
  if (world % others != 0 ||
      (reshardRanks > 1 && world / others % reshardRanks != 0))
    return false;
  if (grains != 0 && mode != Mode::Inference) {
    std::vector<GrainBlock> blocks = dealGrains(
        static_cast<uint32_t>(grains), static_cast<uint32_t>(dpReplicate),
        static_cast<uint32_t>(world / others));
    if (blocks.empty())
      return false;
    microBatches = getMostGrains(blocks);
  }
  dpShard = world / others;
  return true;
}

static void load(Reading &reading);

/// Of a tree that may have mistakes.
static ReadConfig readNode(const std::string &name, const YAML::Node &root,
                           std::optional<int64_t> world) {
  Reading reading(name, world, root);
  reading.mayLackRanks = true;
  load(reading);
  std::vector<std::string> problems = reading.listProblems();
  return {std::move(reading.result), std::move(problems)};
}

/// Files of DeepSpeed's that are named or held here.
static void includeOthers(Reading &reading) {
  if (!reading.root.IsMap())
    return;
  auto load = [&](const std::string &name, const YAML::Node &root) {
    return readNode(name, root, reading.world);
  };
  YAML::Node inner = reading.root["deepspeed_config"];
  for (const YAML::Node &at :
       {reading.root["deepspeed"], inner.IsDefined() && inner.IsMap()
                                       ? inner["deepspeed_config_file"]
                                       : YAML::Node()})
    if (at.IsDefined() && ((at.IsScalar() && !isOff(at)) || at.IsMap()))
      try {
        deepspeed::include(reading, at, load);
      } catch (const Error &error) {
        reading.includedProblems.push_back(error.format());
      }
}

static void load(Reading &reading) {
  includeOthers(reading);
  reading.collect("", [&] {
    getTopLevel().read({reading, "", "", reading.root}, reading.result.config);
  });
  auto run = [&](std::span<const Check> checks) {
    for (const Check &check : checks)
      if (std::ranges::none_of(check.keys, [&](std::string_view key) {
            return reading.hasProblem(key);
          }))
        reading.collect(std::string(check.keys.front()),
                        [&] { check.run(reading); });
  };
  applyWire(reading);
  reading.collect("adapter", [&] { applyAdapter(reading); });
  reading.collect("quantize", [&] { applyQuantize(reading); });
  run(getStepChecks());
  run(getShardingChecks());
  checkCombinations(reading);
  run(getMicroBatchChecks());
  applySparing(reading);
  reading.result.own = reading.printOwn();
}

/// Whatever the format is, errors say where in the file.
static YAML::Node readTree(const std::string &text, const std::string &name) {
  try {
    return YAML::Load(name.ends_with(".toml") ? convertToml(text, name) : text);
  } catch (const YAML::Exception &exception) {
    refuseYaml(name, exception);
  }
}

LoadedConfig fsdp::parseConfig(const std::string &text, const std::string &name,
                               std::optional<int64_t> world,
                               const Target &target) {
  YAML::Node root = readTree(text, name);
  try {
    Reading reading(name, world, root);
    reading.result.config.target = target;
    load(reading);
    reading.throwProblems();
    return std::move(reading.result);
  } catch (const YAML::Exception &exception) {
    refuseYaml(name, exception);
  }
}

ReadConfig fsdp::readConfig(const std::string &text, const std::string &name,
                            std::optional<int64_t> world) {
  YAML::Node root = readTree(text, name);
  try {
    return readNode(name, root, world);
  } catch (const YAML::Exception &exception) {
    refuseYaml(name, exception);
  }
}
