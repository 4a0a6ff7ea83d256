//===- NarrowTypes.cpp - Which types a step computes and sends in ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/auto/NarrowTypes.h"

#include "support/Format.h"
#include "tools/fsdp-opt/auto/Choices.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/predict/Predicted.h"

using namespace fsdp;
using namespace mlir;

/// Of the seconds without: numbers of fewer bits for less are not worth it.
static constexpr double kWorth = 0.99;

/// As a file says it: "float8: {recipe: tensorwise}".
static std::string spell(const Change &change) {
  auto [key, value] = change.keys.front();
  return std::string(key) + ": " + std::string(value);
}

namespace {
class TypeDecider {
public:
  TypeDecider(ModuleOp module, const Config &config, const Cluster &cluster)
      : module(module), cluster(cluster), decided{config, {}} {
    decided.config.types = TypeChoice::Given;
  }

  DecidedTypes run() {
    seconds = predict(module, withoutSchedule(decided.config), cluster)
                  .prediction.seconds;
    for (const auto &choice : getNarrowTypes())
      choose(choice);
    if (decided.reasons.empty())
      decided.reasons.push_back(
          "precision: auto finds nothing that may be narrower: types are said "
          "by the config, or do not go with what it asks for");
    return std::move(decided);
  }

private:
  /// What `schedule` decides, it decides for the types that were chosen.
  static Config withoutSchedule(Config config) {
    config.planner = Planner::Default;
    return config;
  }

  /// The best of one choice, if it is worth it.
  void choose(std::span<const Change *const> choice) {
    const Change *best = nullptr;
    std::optional<Config> narrowed;
    double least = 0;
    for (const Change *each : choice) {
      std::optional<Config> tried = withChange(decided.config, *each, cluster);
      std::optional<Predicted> predicted =
          tried ? tryPredict(module, withoutSchedule(*tried), cluster)
                : std::nullopt;
      if (!predicted || (best && predicted->prediction.seconds >= least))
        continue;
      best = each;
      narrowed = std::move(tried);
      least = predicted->prediction.seconds;
    }
    if (!best)
      return;
    bool isWorth = least <= kWorth * seconds;
    decided.reasons.push_back(
        std::string("precision: auto ") + (isWorth ? "takes " : "leaves out ") +
        spell(*best) + ", with which the step is predicted to take " +
        formatMilliseconds(least) + " ms, " + formatMilliseconds(seconds) +
        " without");
    if (!isWorth)
      return;
    decided.config = std::move(*narrowed);
    seconds = least;
  }

  ModuleOp module;
  const Cluster &cluster;
  DecidedTypes decided;
  double seconds = 0;
};
} // namespace

DecidedTypes fsdp::decideTypes(ModuleOp module, const Config &config,
                               const Cluster &cluster) {
  if (config.types == TypeChoice::Given)
    return {config, {}};
  if (isForInference(module))
    return {config,
            {"precision decides about training; types are those of the other "
             "keys"}};
  return TypeDecider(module, config, cluster).run();
}
