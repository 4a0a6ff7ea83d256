//===- AutoSchedule.cpp - The compiler decides ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/auto/AutoSchedule.h"

#include "decide/Search.h"
#include "support/Format.h"
#include "tools/fsdp-opt/compile/Artifact.h"
#include "tools/fsdp-opt/compile/Compile.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/input/Diagnostics.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace fsdp;
using namespace mlir;

/// Compiles of what the search proposes, until one is within the budget.
static constexpr int kMostTries = 4;

namespace {

struct Compiled {
  Config config;
  PlanFile file;
  Prediction prediction;
};

std::string milliseconds(double seconds) {
  return llvm::formatv("{0:F3} ms", 1e3 * seconds).str();
}

Compiled compile(ModuleOp module, const Config &config,
                 const Cluster &cluster) {
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
  compileProgram(*copy, config, [](llvm::StringRef, ModuleOp) {});
  // Addresses and lifetimes count, not where files are.
  PlanFile file = PlanFile::fromBytes(makeArtifact(*copy, "step.fsdp"), "step");
  Prediction prediction = simulate(file.plan(), cluster);
  return {config, std::move(file), std::move(prediction)};
}

bool says(const Config &config, llvm::StringRef key) {
  return config.places.find(key) != config.places.end();
}

/// What the config does not say itself.
SearchOptions findFreedom(const Config &config, const Cluster &cluster) {
  SearchOptions options;
  options.keeps = !says(config, "fsdp_config.reshard_after_forward");
  options.recomputes = !says(config, "fsdp_config.activation_checkpointing");
  options.offloads = !says(config, "fsdp_config.activation_offloading") &&
                     !cluster.device.isHost;
  if (says(config, "fsdp_config.prefetch"))
    options.mostPrefetch = 0;
  return options;
}

/// As a person could have written it.
Config apply(Config config, const std::vector<BucketFacts> &facts,
             const Decisions &decisions, const SearchOptions &options) {
  std::vector<std::string> kept, recomputed, offloaded;
  for (size_t i = 0; i < facts.size(); ++i) {
    if (decisions.kept[i])
      kept.push_back(facts[i].name);
    if (decisions.recomputed[i])
      recomputed.push_back(facts[i].name);
    if (decisions.offloaded[i])
      offloaded.push_back(facts[i].name);
  }
  if (options.keeps) {
    config.reshard = Reshard::All;
    config.reshardRanks = 0;
    // What the person says of single modules counts more.
    ModuleOverride override;
    override.modules = kept;
    override.place = "schedule: auto";
    override.reshard = 1;
    if (!kept.empty())
      config.overrides.insert(config.overrides.begin(), override);
  }
  if (!recomputed.empty()) {
    CheckpointingConfig &checkpointing = config.checkpointing.emplace();
    checkpointing.policy = decisions.selective ? RecomputeChoice::Selective
                                               : RecomputeChoice::Full;
    checkpointing.modules = recomputed;
  }
  if (!offloaded.empty())
    config.offloadActivations = offloaded;
  if (options.mostPrefetch != 0)
    config.prefetch = decisions.prefetch;
  return config;
}

/// "model.layers.0 … model.layers.7 (8)", in the order of the buckets.
std::string listBuckets(const std::vector<BucketFacts> &facts,
                        const std::vector<bool> &chosen) {
  std::string text;
  size_t count = 0;
  for (size_t i = 0; i < facts.size();) {
    if (!chosen[i]) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < facts.size() && chosen[end])
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

std::string describeUse(const plan::MemoryT &memory) {
  std::string text;
  auto add = [&](const char *what, uint64_t bytes) {
    if (bytes != 0)
      text += (text.empty() ? "" : ", ") + std::string(what) + " " +
              formatBytes(bytes);
  };
  add("parameters", memory.params);
  add("optimizer", memory.optimizer);
  add("gradients", memory.grads);
  add("buffers", memory.buffers);
  add("gathered parameters", memory.gathered);
  add("activations", memory.activations);
  add("inputs", memory.inputs);
  return text;
}

/// Where the most is in use, as the simulation saw it.
std::string describePlace(const plan::PlanT &plan,
                          const Prediction &prediction) {
  const PredictedUse *highest = nullptr;
  const plan::ProgramT *program = nullptr;
  for (const PredictedProgram &each : prediction.programs)
    for (const PredictedUse &use : each.uses)
      if (!highest || use.bytes > highest->bytes) {
        highest = &use;
        program = plan.programs[each.program].get();
      }
  if (!highest)
    return "";
  int32_t at = program->instructions[highest->instruction]->at;
  return at < 0 ? "" : ", at " + plan.locations[size_t(at)];
}

std::string describeHeld(const plan::PlanT &plan,
                         const Prediction &prediction) {
  std::string text = "planned " + formatBytes(prediction.planned) +
                     " (at the highest use: " + describeUse(*plan.memory) +
                     describePlace(plan, prediction) + ")";
  if (prediction.scratch != 0)
    text += ", kernels' temporaries at most " + formatBytes(prediction.scratch);
  return text + ", context and libraries " + formatBytes(prediction.reserved);
}

} // namespace

uint64_t fsdp::getBudget(const Config &config, const Cluster &cluster) {
  double all = cluster.device.memory;
  if (!config.memoryBudget)
    return uint64_t(all);
  const MemoryBudget &budget = *config.memoryBudget;
  return uint64_t(budget.bytes > 0 ? budget.bytes : budget.share * all);
}

void fsdp::checkBudget(const plan::PlanT &plan, const Prediction &prediction,
                       const Config &config, const Cluster &cluster) {
  uint64_t budget = getBudget(config, cluster);
  if (prediction.held() <= budget)
    return;
  throw Error(ErrorId::BudgetTooSmall,
              "expected a step that holds at most " + formatBytes(budget) +
                  " of the device" +
                  (config.memoryBudget ? " (memory_budget at " +
                                             config.memoryBudget->place + ")"
                                       : "") +
                  ", found " + formatBytes(prediction.held()) + ": " +
                  describeHeld(plan, prediction) +
                  (config.planner == Planner::Default
                       ? "; schedule: auto looks for one that fits"
                       : ""));
}

AutoSchedule fsdp::chooseSchedule(ModuleOp module, const Config &config) {
  if (config.cluster.empty())
    throw Error(ErrorId::ConfigMissingKey,
                "schedule: auto needs to know the hardware; add 'cluster', "
                "such as cluster: h100x8, to the config");
  Cluster cluster = Cluster::load(config.cluster);
  AutoSchedule result{config, {}};
  if (isForInference(module)) {
    result.reasons.push_back("schedule: auto decides about training; the rules "
                             "of the other keys hold");
    return result;
  }
  uint64_t budget = getBudget(config, cluster);
  Compiled fallback = compile(module, config, cluster);
  bool fallbackFits = fallback.prediction.held() <= budget;

  SearchOptions options = findFreedom(config, cluster);
  Config open = config;
  if (options.keeps) {
    open.reshard = Reshard::All;
    open.reshardRanks = 0;
  }
  Compiled base = compile(module, open, cluster);
  StepModel model(base.file.plan(), cluster);
  if (options.mostPrefetch == 0)
    options.mostPrefetch = 1;
  Search search(model, options);
  if (says(config, "fsdp_config.prefetch"))
    options.mostPrefetch = 0;

  // Beside what is planned.
  uint64_t beside = base.prediction.held() - base.prediction.planned;
  uint64_t room = budget > beside ? budget - beside : 0;
  std::optional<Compiled> best;
  std::optional<Decisions> chosen;
  uint64_t limit = room;
  for (int i = 0; i < kMostTries; ++i) {
    std::optional<Candidate> candidate = search.choose(limit);
    if (!candidate)
      break;
    Compiled tried = compile(
        module, apply(config, model.buckets(), candidate->decisions, options),
        cluster);
    if (tried.prediction.held() <= budget) {
      best = std::move(tried);
      chosen = candidate->decisions;
      break;
    }
    // The planner needs more than the model said: so much less is asked for.
    uint64_t excess = tried.prediction.held() - budget;
    uint64_t below = std::min(candidate->outcome.peak - 1, limit);
    limit = below > excess ? below - excess : 0;
  }
  if (!best && !fallbackFits) {
    const Candidate &least = search.frontier().back();
    Compiled smallest = compile(
        module, apply(config, model.buckets(), least.decisions, options),
        cluster);
    if (smallest.prediction.held() <= budget) {
      best = std::move(smallest);
      chosen = least.decisions;
    } else {
      throw Error(ErrorId::BudgetTooSmall,
                  "no schedule was found that holds at most " +
                      formatBytes(budget) +
                      " of the device; the smallest one "
                      "holds " +
                      formatBytes(smallest.prediction.held()) + ": " +
                      describeHeld(smallest.file.plan(), smallest.prediction) +
                      "; a memory_budget of " +
                      std::to_string(smallest.prediction.held()) +
                      "B works, and so do more ranks");
    }
  }
  std::string had = milliseconds(fallback.prediction.seconds) + " and " +
                    formatBytes(fallback.prediction.held());
  if (!best || (fallbackFits &&
                fallback.prediction.seconds <= best->prediction.seconds)) {
    result.reasons.push_back("schedule: auto keeps the default's schedule, " +
                             had + " predicted within " + formatBytes(budget) +
                             "; nothing that was found is faster");
    return result;
  }
  result.config = best->config;
  result.reasons.push_back(
      "schedule: auto takes " + milliseconds(best->prediction.seconds) +
      " and " + formatBytes(best->prediction.held()) + " predicted within " +
      formatBytes(budget) + "; the default's " +
      (fallbackFits ? "is slower: " : "does not fit: ") + had);
  const std::vector<BucketFacts> &facts = model.buckets();
  if (options.keeps)
    result.reasons.push_back("  stay gathered for backward: " +
                             listBuckets(facts, chosen->kept));
  if (options.recomputes)
    result.reasons.push_back(
        std::string("  computed again for backward") +
        (chosen->selective ? " but for products and attention" : "") + ": " +
        listBuckets(facts, chosen->recomputed));
  if (options.offloads)
    result.reasons.push_back("  activations wait on the host: " +
                             listBuckets(facts, chosen->offloaded));
  if (options.mostPrefetch != 0)
    result.reasons.push_back("  gathered ahead: " +
                             std::to_string(chosen->prefetch));
  return result;
}
