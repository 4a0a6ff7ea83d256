//===- Choices.cpp - Decisions as a config, and in words ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/auto/Choices.h"

#include <algorithm>
#include <map>

using namespace fsdp;

/// Of overrides that no file has.
static constexpr const char *kPlace = "schedule: auto";

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

template <RecomputeChoice policy>
static void recompute(Config &config) {
  CheckpointingConfig each;
  each.policy = policy;
  config.checkpointing = {each};
}

const Change fsdp::kReshard = {
    {{"fsdp_config.reshard_after_forward", "true"}}, false, [](Config &config) {
      config.reshard = Reshard::All;
      config.reshardRanks = 0;
    }};
const Change fsdp::kSelective = {
    {{"fsdp_config.activation_checkpointing", "{policy: selective}"}},
    false,
    recompute<RecomputeChoice::Selective>};
const Change fsdp::kFull = {{{"fsdp_config.activation_checkpointing", "true"}},
                            false,
                            recompute<RecomputeChoice::Full>};
const Change fsdp::kChunks = {{{"fsdp_config.loss_chunks", "auto"}},
                              false,
                              [](Config &config) { config.lossChunks = 0; }};
const Change fsdp::kActivationsOnHost = {
    {{"fsdp_config.activation_offloading", "true"}}, true, [](Config &config) {
      config.offloadActivations = {"*"};
    }};
const Change fsdp::kOptimizerOnHost = {
    {{"fsdp_config.offload_optimizer", "true"},
     {"fsdp_config.offload_params", "false"}},
    true,
    [](Config &config) { config.offloadOptimizer = true; }};
const Change fsdp::kParamsOnHost = {{{"fsdp_config.offload_optimizer", "true"},
                                     {"fsdp_config.offload_params", "true"}},
                                    true,
                                    [](Config &config) {
                                      config.offloadOptimizer =
                                          config.offloadParams = true;
                                    }};
const Change fsdp::kFlat = {
    {{"fsdp_config.bucket_layout", "auto"}}, false, [](Config &config) {
      config.layout = LayoutChoice::Auto;
    }};
const Change fsdp::kInFlight = {
    {{"fsdp_config.reductions_in_flight", "2"}}, false, [](Config &config) {
      config.reductionsInFlight = 2;
    }};

template <bool gathers>
static void multiplyInEightBits(Config &config) {
  config.float8.emplace().allGather = gathers;
}

static const Change kFloat8 = {{{"float8", "{recipe: tensorwise}"}},
                               false,
                               multiplyInEightBits</*gathers=*/false>};
static const Change kFloat8Gathers = {
    {{"float8", "{recipe: tensorwise, enable_fsdp_float8_all_gather: true}"}},
    false,
    multiplyInEightBits</*gathers=*/true>};
static const Change kNarrowWire = {
    {{"fsdp_config.reduce_wire_dtype", "bfloat16"}}, false, [](Config &config) {
      config.reduceWireDtype = "bfloat16";
    }};

std::span<const Change *const> fsdp::getChanges() {
  static constexpr const Change *all[] = {
      &kReshard,           &kSelective,       &kFull,          &kChunks,
      &kActivationsOnHost, &kOptimizerOnHost, &kParamsOnHost,  &kFlat,
      &kInFlight,          &kFloat8,          &kFloat8Gathers, &kNarrowWire};
  return all;
}

std::span<const std::span<const Change *const>> fsdp::getNarrowTypes() {
  static constexpr const Change *layers[] = {&kFloat8, &kFloat8Gathers},
                                *wires[] = {&kNarrowWire};
  static constexpr std::span<const Change *const> all[] = {layers, wires};
  return all;
}

std::optional<Config> fsdp::withChange(const Config &config,
                                       const Change &change,
                                       const Cluster &cluster) {
  // A host that is the device has nothing to give.
  if ((change.needsHost && cluster.device.isHost) ||
      std::ranges::any_of(change.keys, [&](const auto &each) {
        return says(config, each.first);
      }))
    return std::nullopt;
  Config changed = config;
  change.make(changed);
  if (!allows(config, changed))
    return std::nullopt;
  return changed;
}

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

SearchOptions fsdp::findFreedom(const Config &config, const Cluster &cluster) {
  SearchOptions options;
  auto mayDo = [&](const Change &change) {
    return withChange(config, change, cluster).has_value();
  };
  options.keeps = mayDo(kReshard);
  options.recomputes = mayDo(kFull);
  options.offloads = mayDo(kActivationsOnHost);
  options.prefetches =
      !says(config, "fsdp_config.prefetch") &&
      std::ranges::none_of(config.overrides, [](const ModuleOverride &each) {
        return each.prefetch.has_value();
      });
  return options;
}

std::string fsdp::quotePattern(const std::string &name) {
  std::string pattern;
  for (char c : name) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos)
      pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// The distance of most buckets.
static uint32_t getUsualPrefetch(const Decisions &decisions) {
  std::map<uint32_t, size_t> counts;
  for (uint32_t each : decisions.prefetch)
    ++counts[each];
  uint32_t usual = 1;
  size_t most = 0;
  for (auto [distance, count] : counts)
    if (count > most) {
      usual = distance;
      most = count;
    }
  return usual;
}

Config fsdp::applyDecisions(Config config, const StepModel &model,
                            const Decisions &decisions,
                            const SearchOptions &options) {
  std::vector<ModuleOverride> overrides;
  auto override = [&](std::vector<std::string> names) -> ModuleOverride & {
    ModuleOverride &each = overrides.emplace_back();
    each.modules = std::move(names);
    each.place = kPlace;
    return each;
  };
  if (options.keeps) {
    config.reshard = Reshard::All;
    config.reshardRanks = 0;
    std::vector<std::string> kept;
    for (size_t i = 0; i < decisions.kept.size(); ++i)
      if (decisions.kept[i])
        kept.push_back(quotePattern(model.buckets()[i].name));
    if (!kept.empty())
      override(std::move(kept)).reshard = 1;
  }
  if (options.prefetches) {
    config.prefetch = getUsualPrefetch(decisions);
    std::map<uint32_t, std::vector<std::string>> others;
    for (size_t i = 0; i < decisions.prefetch.size(); ++i)
      if (decisions.prefetch[i] != config.prefetch)
        others[decisions.prefetch[i]].push_back(
            quotePattern(model.buckets()[i].name));
    for (auto &[distance, names] : others)
      override(std::move(names)).prefetch = distance;
  }
  config.overrides.insert(config.overrides.begin(), overrides.begin(),
                          overrides.end());
  for (auto [kind, policy] :
       {std::pair(Recomputed::full, RecomputeChoice::Full),
        std::pair(Recomputed::selective, RecomputeChoice::Selective)}) {
    CheckpointingConfig checkpointing;
    checkpointing.policy = policy;
    for (size_t i = 0; i < decisions.recomputed.size(); ++i)
      if (decisions.recomputed[i] == kind)
        checkpointing.modules.push_back(quotePattern(model.blocks()[i].name));
    if (!checkpointing.modules.empty())
      config.checkpointing.push_back(std::move(checkpointing));
  }
  std::vector<std::string> offloaded;
  for (size_t i = 0; i < decisions.offloaded.size(); ++i)
    if (decisions.offloaded[i])
      offloaded.push_back(quotePattern(model.blocks()[i].name));
  if (!offloaded.empty())
    config.offloadActivations = std::move(offloaded);
  return config;
}

/// "model.layers.0 to model.layers.7 (8 of 33)", in their order.
template <typename Facts, typename IsChosen>
static std::string listNames(const std::vector<Facts> &facts,
                             IsChosen isChosen) {
  std::string text;
  size_t count = 0;
  for (size_t i = 0; i < facts.size();) {
    if (!isChosen(i)) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < facts.size() && isChosen(end))
      ++end;
    text += (text.empty() ? "" : ", ") + facts[i].name;
    if (end - i > 1)
      text += " to " + facts[end - 1].name;
    count += end - i;
    i = end;
  }
  return text.empty() ? "none"
                      : text + " (" + std::to_string(count) + " of " +
                            std::to_string(facts.size()) + ")";
}

std::vector<std::string> fsdp::describeDecisions(const StepModel &model,
                                                 const Decisions &decisions,
                                                 const SearchOptions &options) {
  std::vector<std::string> lines;
  if (options.keeps)
    lines.push_back("  stay gathered for backward: " +
                    listNames(model.buckets(),
                              [&](size_t i) { return decisions.kept[i]; }));
  if (options.recomputes) {
    auto list = [&](Recomputed kind) {
      return listNames(model.blocks(), [&](size_t i) {
        return decisions.recomputed[i] == kind;
      });
    };
    lines.push_back("  computed again for backward: " + list(Recomputed::full));
    lines.push_back(
        "  computed again for backward but for products and attention: " +
        list(Recomputed::selective));
  }
  if (options.offloads)
    lines.push_back("  activations wait on the host: " +
                    listNames(model.blocks(), [&](size_t i) {
                      return decisions.offloaded[i];
                    }));
  if (options.prefetches) {
    uint32_t usual = getUsualPrefetch(decisions);
    std::string text = "  gathered ahead: " + std::to_string(usual);
    std::map<uint32_t, bool> others;
    for (uint32_t each : decisions.prefetch)
      if (each != usual)
        others[each] = true;
    for (auto [distance, is] : others)
      text += "; " + std::to_string(distance) + ": " +
              listNames(model.buckets(), [&](size_t i) {
                return decisions.prefetch[i] == distance;
              });
    lines.push_back(std::move(text));
  }
  return lines;
}
