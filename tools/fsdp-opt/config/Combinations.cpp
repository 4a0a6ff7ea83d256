//===- Combinations.cpp - Features that a config asks for -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Combinations.h"

#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/Names.h"

#include <algorithm>

using namespace fsdp;

bool fsdp::says(const Config &config, std::string_view key) {
  return config.places.find(key) != config.places.end();
}

/// The first override that `is` one, by its place: "fsdp_config.overrides[0]".
template <typename Is>
static std::optional<std::string> findOverride(const Config &config, Is is) {
  auto found = std::ranges::find_if(config.overrides, is);
  if (found == config.overrides.end())
    return std::nullopt;
  return "fsdp_config.overrides[" +
         std::to_string(found - config.overrides.begin()) + "]";
}

static Asked askBucketReshards(const Config &config) {
  auto reshards = [](const ModuleOverride &each) {
    return each.reshard.value_or(1) != 1;
  };
  std::optional<std::string> path = findOverride(config, reshards);
  if (!path)
    return {};
  int64_t ranks = *std::ranges::find_if(config.overrides, reshards)->reshard;
  return {true,
          "'reshard_after_forward: " +
              (ranks == 0 ? "true" : std::to_string(ranks)) + "'",
          *path};
}

static Asked askFlatLayout(const Config &config) {
  bool holdsRows = config.layout == LayoutChoice::Rows ||
                   config.layout == LayoutChoice::Auto;
  return {!holdsRows && !findOverride(config,
                                      [](const ModuleOverride &each) {
                                        return each.layout.has_value();
                                      }),
          "'bucket_layout: " + std::string(getName(config.layout)) + "'"};
}

static Asked askOtherShardDims(const Config &config) {
  for (size_t i = 0; i < config.shardDims.size(); ++i)
    if (const ShardDim &rule = config.shardDims[i]; rule.dim.value_or(0) != 0)
      return {true, "'shard_dims' of '" + rule.pattern + "'",
              "fsdp_config.shard_dims[" + std::to_string(i) + "]"};
  return {};
}

static Asked askNarrowWire(const Config &config) {
  if (!config.reduceWireDtype.empty())
    return {true};
  std::optional<std::string> path =
      findOverride(config, [](const ModuleOverride &each) {
        return !each.reduceWireDtype.empty();
      });
  return {path.has_value(), "", path ? *path + ".reduce_wire_dtype" : ""};
}

static Asked askPlanner(const Config &config,
                        std::initializer_list<Planner> planners) {
  return {config.mode != Mode::Inference &&
              std::ranges::find(planners, config.planner) != planners.end(),
          "schedule: " + std::string(getName(config.planner))};
}

/// With grains they follow from the ranks.
static Asked askMicroBatches(const Config &config) {
  return {config.microBatches > 1 &&
              (config.grains == 0 ||
               says(config, getInfo(Feature::MicroBatches).key)),
          "'gradient_accumulation_steps: " +
              std::to_string(config.microBatches) + "'"};
}

static Asked askStepsWithNan(const Config &config) {
  return {says(config, getInfo(Feature::StepsWithNan).key) &&
              config.onNonFinite != plan::NonFinite::skip,
          "'on_nonfinite: " +
              std::string(plan::EnumNameNonFinite(config.onNonFinite)) + "'"};
}

Asked fsdp::ask(const Config &config, Feature feature) {
  bool trains = config.mode != Mode::Inference;
  std::string_view key = getInfo(feature).key;
  const Device &device = findDevice(config.target.describe());
  switch (feature) {
#define FSDP_FEATURE(name, key, words, ofConfig, ofModule)                     \
  case Feature::name:                                                          \
    return ofConfig;
#include "ir/features/Features.def"
  }
  return {};
}

bool fsdp::allows(const Config &config, const Config &changed) {
  auto isBroken = [](const Relation &relation, const Config &of) {
    return relation.isBroken(
        [&](Feature feature) { return ask(of, feature).is; });
  };
  return std::ranges::none_of(getRelations(), [&](const Relation &relation) {
    return isBroken(relation, changed) && !isBroken(relation, config);
  });
}

/// Where messages about it stand, and whether that is wrong already.
static std::string getPath(const Config &config, Feature feature) {
  std::string path = ask(config, feature).path;
  return path.empty() ? std::string(getInfo(feature).key) : path;
}

void fsdp::checkCombinations(Reading &reading) {
  const Config &config = reading.result.config;
  auto words = [&](Feature feature) {
    Asked asked = ask(config, feature);
    bool isKey = asked.words.empty() && getInfo(feature).words.empty();
    return isKey ? reading.quote(getPath(config, feature))
                 : getWords(feature, asked);
  };
  for (const Relation &relation : getRelations()) {
    bool isWrong = std::ranges::any_of(relation.features, [&](Feature each) {
      return reading.hasProblem(getPath(config, each));
    });
    if (isWrong || !relation.isBroken([&](Feature feature) {
          return ask(config, feature).is;
        }))
      continue;
    std::string path = getPath(config, relation.features.front());
    reading.collect(path, [&] {
      reading.refuse(path, relation.describe(words), relation.id);
    });
  }
}
