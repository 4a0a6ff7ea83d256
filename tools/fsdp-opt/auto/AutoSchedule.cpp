//===- AutoSchedule.cpp - The compiler decides ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/auto/AutoSchedule.h"

#include "decide/Search.h"
#include "support/Error.h"
#include "support/Format.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/predict/Predicted.h"

#include <algorithm>
#include <memory>

using namespace fsdp;
using namespace mlir;

/// Compiles of what the search proposes, until one is within the budget.
static constexpr int kMostTries = 4;

namespace {

/// A config that the search starts from, and what it found there.
struct Start {
  Config config;
  std::string what; ///< that it does beside the default; empty: nothing
  std::unique_ptr<Predicted> base;
  std::unique_ptr<StepModel> model;
  std::unique_ptr<Search> search;
};

/// What was proposed: decisions from one of the starts.
struct Proposal {
  const Start *start;
  Candidate candidate;
  uint64_t held; ///< bytes, as the model says
};

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
    options.leastPrefetch = options.mostPrefetch =
        static_cast<uint32_t>(config.prefetch);
  return options;
}

/// As a person could have written it.
Config apply(Config config, const std::vector<BucketFacts> &facts,
             const Decisions &decisions, const SearchOptions &options,
             bool prefetches) {
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
  if (prefetches)
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
  text += ", context and libraries " + formatBytes(prediction.reserved);
  if (prediction.communicators != 0)
    text += ", communicators' buffers " + formatBytes(prediction.communicators);
  return text;
}

} // namespace

/// Mechanisms that hold for the whole step, from the cheapest on.
static std::vector<Start> listStarts(const Config &config,
                                     const Cluster &cluster,
                                     const SearchOptions &options) {
  Config open = config;
  if (options.keeps) {
    open.reshard = Reshard::All;
    open.reshardRanks = 0;
  }
  std::vector<Start> starts;
  auto add = [&](const Config &each, const char *what) {
    starts.push_back({each, what, nullptr, nullptr, nullptr});
  };
  add(open, "");
  bool chunks = !says(config, "fsdp_config.loss_chunks");
  if (chunks) {
    open.lossChunks = 0;
    add(open, "the loss in chunks");
  }
  // A host that is the device has nothing to give.
  bool offloads = !cluster.device.isHost &&
                  !says(config, "fsdp_config.offload_params") &&
                  !says(config, "fsdp_config.offload_optimizer");
  if (offloads) {
    open.offloadOptimizer = true;
    add(open, chunks ? "the loss in chunks, the optimizer's states on the host"
                     : "the optimizer's states on the host");
  }
  if (offloads && config.sync != Sync::AllReduceLast) {
    open.offloadParams = true;
    add(open, chunks ? "the loss in chunks, parameters and the optimizer's "
                       "states on the host"
                     : "parameters and the optimizer's states on the host");
  }
  return starts;
}

uint64_t fsdp::getBudget(const Config &config, const Prediction &prediction) {
  auto all = double(prediction.capacity);
  if (!config.memoryBudget)
    return prediction.capacity;
  const MemoryBudget &budget = *config.memoryBudget;
  return uint64_t(budget.bytes > 0 ? budget.bytes : budget.share * all);
}

void fsdp::checkBudget(const plan::PlanT &plan, const Prediction &prediction,
                       const Config &config) {
  uint64_t budget = getBudget(config, prediction);
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

/// The fastest of all starts that the models say holds at most `limit`.
static std::optional<Proposal> propose(const std::vector<Start> &starts,
                                       uint64_t limit) {
  std::optional<Proposal> best;
  for (const Start &start : starts) {
    const Prediction &base = start.base->prediction;
    // Beside what is planned.
    uint64_t beside = base.held() - base.planned;
    if (limit < beside)
      continue;
    std::optional<Candidate> found = start.search->choose(limit - beside);
    if (found &&
        (!best || found->outcome.seconds < best->candidate.outcome.seconds))
      best = Proposal{&start, *found, found->outcome.peak + beside};
  }
  return best;
}

/// What needs the least, whatever it costs.
static Proposal proposeLeast(const std::vector<Start> &starts) {
  std::optional<Proposal> least;
  for (const Start &start : starts) {
    const Prediction &base = start.base->prediction;
    const Candidate &last = start.search->frontier().back();
    uint64_t held = last.outcome.peak + base.held() - base.planned;
    if (!least || held < least->held)
      least = Proposal{&start, last, held};
  }
  return *least;
}

static std::vector<std::string> explainProposal(const Proposal &proposal,
                                                const SearchOptions &options,
                                                bool prefetches) {
  const std::vector<BucketFacts> &facts = proposal.start->model->buckets();
  const Decisions &chosen = proposal.candidate.decisions;
  std::vector<std::string> reasons;
  if (!proposal.start->what.empty())
    reasons.push_back("  for the whole step: " + proposal.start->what);
  if (options.keeps)
    reasons.push_back("  stay gathered for backward: " +
                      listBuckets(facts, chosen.kept));
  if (options.recomputes)
    reasons.push_back(
        std::string("  computed again for backward") +
        (chosen.selective ? " but for products and attention" : "") + ": " +
        listBuckets(facts, chosen.recomputed));
  if (options.offloads)
    reasons.push_back("  activations wait on the host: " +
                      listBuckets(facts, chosen.offloaded));
  if (prefetches)
    reasons.push_back("  gathered ahead: " + std::to_string(chosen.prefetch));
  return reasons;
}

AutoSchedule fsdp::chooseSchedule(ModuleOp module, const Config &config,
                                  const Cluster &cluster) {
  AutoSchedule result{config, {}};
  if (isForInference(module)) {
    result.reasons.push_back("schedule: auto decides about training; the rules "
                             "of the other keys hold");
    return result;
  }
  Predicted fallback = predict(module, config, cluster);
  uint64_t budget = getBudget(config, fallback.prediction);
  bool fallbackFits = fallback.prediction.held() <= budget;

  SearchOptions options = findFreedom(config, cluster);
  bool prefetches = !says(config, "fsdp_config.prefetch");
  std::vector<Start> starts = listStarts(config, cluster, options);
  for (Start &start : starts) {
    start.base =
        std::make_unique<Predicted>(predict(module, start.config, cluster));
    start.model = std::make_unique<StepModel>(start.base->file.plan(), cluster);
    start.search = std::make_unique<Search>(*start.model, options);
  }
  auto build = [&](const Proposal &proposal) {
    return predict(module,
                   apply(proposal.start->config,
                         proposal.start->model->buckets(),
                         proposal.candidate.decisions, options, prefetches),
                   cluster);
  };

  std::optional<Predicted> best;
  std::optional<Proposal> chosen;
  uint64_t limit = budget;
  for (int i = 0; i < kMostTries && !best; ++i) {
    chosen = propose(starts, limit);
    if (!chosen)
      break;
    Predicted tried = build(*chosen);
    if (tried.prediction.held() <= budget) {
      best = std::move(tried);
      break;
    }
    // The planner needs more than the model said: so much less is asked for.
    uint64_t excess = tried.prediction.held() - budget;
    uint64_t below = std::min(chosen->held - 1, limit);
    limit = below > excess ? below - excess : 0;
  }
  if (!best && !fallbackFits) {
    chosen = proposeLeast(starts);
    Predicted least = build(*chosen);
    if (least.prediction.held() > budget)
      throw Error(ErrorId::BudgetTooSmall,
                  "no schedule was found that holds at most " +
                      formatBytes(budget) +
                      " of the device; the smallest one holds " +
                      formatBytes(least.prediction.held()) + ": " +
                      describeHeld(least.file.plan(), least.prediction) +
                      "; a memory_budget of " +
                      std::to_string(least.prediction.held()) +
                      "B works, and so do more ranks");
    best = std::move(least);
  }
  std::string had = formatMilliseconds(fallback.prediction.seconds) +
                    " ms and " + formatBytes(fallback.prediction.held());
  if (!best || (fallbackFits &&
                fallback.prediction.seconds <= best->prediction.seconds)) {
    result.reasons.push_back("schedule: auto keeps the default's schedule, " +
                             had + " predicted within " + formatBytes(budget) +
                             "; nothing that was found is faster");
    return result;
  }
  result.config = best->config;
  result.reasons.push_back(
      "schedule: auto takes " + formatMilliseconds(best->prediction.seconds) +
      " ms and " + formatBytes(best->prediction.held()) + " predicted within " +
      formatBytes(budget) + "; the default's " +
      (fallbackFits ? "is slower: " : "does not fit: ") + had);
  llvm::append_range(result.reasons,
                     explainProposal(*chosen, options, prefetches));
  return result;
}
