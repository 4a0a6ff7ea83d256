//===- AutoSchedule.cpp - The compiler decides ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/auto/AutoSchedule.h"

#include "decide/Search.h"
#include "support/Error.h"
#include "support/Format.h"
#include "tools/fsdp-opt/auto/Budget.h"
#include "tools/fsdp-opt/auto/Choices.h"
#include "tools/fsdp-opt/auto/MergedBuckets.h"
#include "tools/fsdp-opt/auto/NarrowTypes.h"
#include "tools/fsdp-opt/auto/PeerRules.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/config/Names.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <memory>

using namespace fsdp;
using namespace mlir;

/// Compiles of what the search proposes, and of these once one is within the
/// budget, to fill what the model left of it. Few buckets and blocks are
/// compiled sooner, and differ more.
static constexpr int kMostTries = 6, kMostRaises = 2;
static constexpr int kMostTriesOfFew = 16, kMostRaisesOfFew = 8;
/// Of the seconds before, with everything gathered again: merging more buckets
/// is not worth a look if it takes more.
static constexpr double kMerged = 0.995;
/// Bytes that are not worth a try.
static constexpr uint64_t kNothing = 1024;
/// A budget that is filled so far is not tried again.
static constexpr double kFilled = 0.98;
/// Starts whose curve is so much slower than another's are not made better.
static constexpr double kNear = 1.01;
/// A start that moves states to the host is not worth a look if the others are
/// so close to what they reach without any budget.
static constexpr double kAtBest = 1.005;

namespace {

/// A config that the search starts from, and what it found there.
struct Start {
  Config config;
  std::string what;    ///< that it does beside the default; empty: nothing
  uint64_t beside = 0; ///< bytes held beside what is planned
  std::unique_ptr<Predicted> base; ///< its plan stays where it is
  std::unique_ptr<StepModel> model;
  std::unique_ptr<Search> search;
};

/// What was proposed: decisions from one of the starts.
struct Proposal {
  const Start *start;
  Candidate candidate;

  uint64_t held() const { return candidate.outcome.peak + start->beside; }
};

/// What was compiled, and what it is.
struct Answer {
  Predicted predicted;
  std::vector<std::string> lines;
};

class Decider {
public:
  Decider(ModuleOp module, const Config &config, const Cluster &cluster)
      : module(module), config(config), cluster(cluster),
        options(findFreedom(config, cluster)) {}

  DecidedSchedule run();

private:
  /// None where passes refuse what nobody asked for.
  std::optional<Predicted> tryPredict(const Config &tried) const;
  /// Unless it is refused, or what it is predicted to take is not worth it.
  bool addStart(
      const Config &from, std::string what,
      llvm::function_ref<bool(const Prediction &)> isWorth =
          [](const Prediction &) { return true; });
  void addMerged(size_t start, const char *what);
  void listStarts();
  bool isAtBest(uint64_t limit) const;
  /// Whether it is open how attention meets other ranks' keys.
  bool mayRotate() const {
    return config.cp > 1 && config.rotate == RotateChoice::Auto;
  }
  std::optional<Proposal> propose(uint64_t limit) const;
  Proposal proposeLeast() const;
  Answer build(const Proposal &proposal) const;
  void searchWithin();
  void searchLeast(uint64_t fallbackHeld);
  void offer(Answer answer);
  void offerPeers(const std::optional<PeerSchedule> &deepCompile);
  void polish();

  ModuleOp module;
  const Config &config;
  const Cluster &cluster;
  const SearchOptions options;
  uint64_t budget = 0;
  std::vector<Start> starts;
  std::optional<Answer> best; ///< the fastest that is within the budget
};

} // namespace

std::optional<Predicted> Decider::tryPredict(const Config &tried) const {
  if (!allows(config, tried))
    return std::nullopt;
  return fsdp::tryPredict(module, tried, cluster);
}

bool Decider::addStart(const Config &from, std::string what,
                       llvm::function_ref<bool(const Prediction &)> isWorth) {
  Start start{from, std::move(what), 0, {}, {}, {}};
  std::optional<Predicted> base =
      starts.empty() ? predict(module, from, cluster) : tryPredict(from);
  if (!base || !isWorth(base->prediction))
    return false;
  start.base = std::make_unique<Predicted>(std::move(*base));
  start.base->module = {};
  start.beside = start.base->prediction.held() - start.base->prediction.planned;
  // Buckets that were merged are called after no module.
  std::vector<std::string> blocks;
  if (!starts.empty())
    for (const BlockFacts &each : starts.front().model->blocks())
      blocks.push_back(each.name);
  start.model =
      std::make_unique<StepModel>(start.base->file.plan(), cluster, blocks);
  start.search = std::make_unique<Search>(*start.model, options);
  starts.push_back(std::move(start));
  return true;
}

static uint64_t middle(uint64_t low, uint64_t high) {
  return low + (high - low) / 2;
}

/// The same with neighbouring buckets merged, where that is worth a try.
void Decider::addMerged(size_t number, const char *what) {
  if (says(config, "fsdp_config.buckets") || config.keepGathered)
    return;
  std::optional<Config> last;
  for (size_t span : {2, 4, 8}) {
    const Start &start = starts[number];
    std::optional<Config> merged = mergeBuckets(
        start.config, *start.model, start.base->file.plan(), cluster, span);
    if (!merged || (last && last->buckets.size() == merged->buckets.size()))
      return;
    double before = starts.back().base->prediction.seconds;
    auto isFaster = [&](const Prediction &prediction) {
      return prediction.seconds <= kMerged * before;
    };
    if (!addStart(*merged,
                  what + std::string("up to ") + std::to_string(span) +
                      " neighbouring buckets merged",
                  isFaster))
      return;
    last = std::move(merged);
  }
}

/// Mechanisms that hold for the whole step, from the cheapest on.
void Decider::listStarts() {
  Config open = withChange(config, kReshard, cluster).value_or(config);
  addStart(open, "");
  addMerged(0, "");
  if (mayRotate()) {
    Config ring = open;
    ring.rotate = RotateChoice::Ring;
    addStart(ring, "keys and values passed on");
  }
  std::optional<Config> chunks = withChange(open, kChunks, cluster);
  if (chunks) {
    open = *chunks;
    size_t number = starts.size();
    const Prediction &whole = starts.front().base->prediction;
    // No loss is cut where nothing changes.
    auto isOther = [&](const Prediction &prediction) {
      return prediction.seconds != whole.seconds ||
             prediction.held() != whole.held();
    };
    if (addStart(open, "the loss in chunks", isOther))
      addMerged(number, "the loss in chunks, ");
  }
  std::optional<Config> states = withChange(open, kOptimizerOnHost, cluster);
  if (!states || isAtBest(budget))
    return;
  std::string also = chunks ? "the loss in chunks, " : "";
  addStart(*states, also + "the optimizer's states on the host");
  if (std::optional<Config> all = withChange(open, kParamsOnHost, cluster))
    addStart(*all, also + "parameters and the optimizer's states on the host");
}

/// Whether the starts so far have an answer close to their best without any
/// budget.
bool Decider::isAtBest(uint64_t limit) const {
  double fastest = starts.front().search->frontier().front().outcome.seconds;
  for (const Start &start : starts)
    if (limit >= start.beside)
      if (std::optional<Candidate> found =
              start.search->find(limit - start.beside);
          found && found->outcome.seconds <= kAtBest * fastest)
        return true;
  return false;
}

/// The fastest of all starts that the models say holds at most `limit`.
std::optional<Proposal> Decider::propose(uint64_t limit) const {
  std::vector<std::optional<Candidate>> found;
  double fastest = 0;
  for (const Start &start : starts) {
    found.push_back(limit < start.beside
                        ? std::nullopt
                        : start.search->find(limit - start.beside));
    if (found.back() &&
        (fastest == 0 || found.back()->outcome.seconds < fastest))
      fastest = found.back()->outcome.seconds;
  }
  std::optional<Proposal> chosen;
  for (auto [start, curve] : llvm::zip_equal(starts, found)) {
    if (!curve || curve->outcome.seconds > kNear * fastest)
      continue;
    Candidate better = *start.search->choose(limit - start.beside);
    if (!chosen || better.outcome.seconds < chosen->candidate.outcome.seconds)
      chosen = Proposal{&start, std::move(better)};
  }
  return chosen;
}

/// What needs the least, whatever it costs.
Proposal Decider::proposeLeast() const {
  std::optional<Proposal> least;
  for (const Start &start : starts) {
    Proposal each{&start, start.search->frontier().back()};
    if (!least || each.held() < least->held())
      least = std::move(each);
  }
  return *least;
}

Answer Decider::build(const Proposal &proposal) const {
  const Start &start = *proposal.start;
  const Decisions &decisions = proposal.candidate.decisions;
  Answer answer{
      predict(module,
              applyDecisions(start.config, *start.model, decisions, options),
              cluster),
      {}};
  if (!start.what.empty())
    answer.lines.push_back("  for the whole step: " + start.what);
  llvm::append_range(answer.lines,
                     describeDecisions(*start.model, decisions, options));
  return answer;
}

/// Takes it if it is within the budget and faster than what there is.
void Decider::offer(Answer answer) {
  const Prediction &prediction = answer.predicted.prediction;
  if (prediction.held() <= budget &&
      (!best || prediction.seconds < best->predicted.prediction.seconds))
    best = std::move(answer);
}

void Decider::searchWithin() {
  // Limits of the model whose answers fit, and do not.
  std::optional<uint64_t> enough, tooMuch;
  uint64_t limit = budget;
  bool isSmall = starts.front().search->isOfFew();
  uint64_t quarters = isSmall ? 1 : 4; // of the excess
  int tries = isSmall ? kMostTriesOfFew : kMostTries;
  int raises = isSmall ? kMostRaisesOfFew : kMostRaises;
  while (tries-- > 0) {
    std::optional<Proposal> proposal = propose(limit);
    while (!proposal && tooMuch && limit + kNothing < *tooMuch) {
      limit = middle(limit, *tooMuch);
      proposal = propose(limit);
    }
    if (!proposal)
      return;
    Answer answer = build(*proposal);
    uint64_t held = answer.predicted.prediction.held();
    offer(std::move(answer));
    if (held <= budget) {
      enough = limit;
      bool isFilled = double(held) >= kFilled * double(budget);
      if (isFilled && !(isSmall && tooMuch))
        return;
    } else {
      tooMuch = limit;
    }
    if (enough && raises-- == 0)
      return;
    if (enough && tooMuch) {
      limit = middle(*enough, *tooMuch);
    } else if (enough) {
      // The planner needs less than the model said: so much more is given.
      if (proposal->held() <= held)
        return;
      limit = budget + (proposal->held() - held);
      if (limit <= *enough)
        return;
    } else {
      // Or more: so much less, and each time twice as much less, or tries
      // would end just above.
      uint64_t below = std::min(proposal->held() - 1, limit);
      uint64_t excess = (held - budget) / 4 * quarters;
      limit = below > excess ? below - excess : 0;
      quarters *= 2;
    }
  }
}

/// Gives up all there is, and then a byte less again and again: the planner
/// needs more for one proposal than for another. Throws what needs the least.
void Decider::searchLeast(uint64_t fallbackHeld) {
  const uint64_t asked = budget;
  Answer least = build(proposeLeast());
  while (least.predicted.prediction.held() > asked) {
    budget = least.predicted.prediction.held() - 1;
    searchWithin();
    if (!best)
      break;
    least = std::move(*best);
    best.reset();
  }
  budget = asked;
  const Prediction &prediction = least.predicted.prediction;
  if (prediction.held() > budget)
    throw Error(ErrorId::BudgetTooSmall,
                "no schedule was found that holds at most " +
                    formatBytes(budget) +
                    " of the device; the smallest one holds " +
                    formatBytes(prediction.held()) + ": " +
                    describeHeld(least.predicted.file.plan(), prediction) +
                    "; a memory_budget of " +
                    std::to_string(std::min(prediction.held(), fallbackHeld)) +
                    "B works, and so do more ranks");
  best = std::move(least);
}

/// Rules of peers, where the config leaves open what they decide.
void Decider::offerPeers(const std::optional<PeerSchedule> &deepCompile) {
  auto offerRule = [&](const PeerSchedule &rule) {
    if (std::optional<Predicted> predicted = tryPredict(rule.config))
      offer({std::move(*predicted), {"  " + rule.what}});
  };
  if (options.prefetches && config.prefetch != 1)
    offerRule(applyFsdp2(config));
  if (deepCompile)
    offerRule(*deepCompile);
  if (!says(config, "fsdp_config.buckets"))
    offerRule(applyInductor(module, config));
}

/// What the model of a step does not know: tries it on the answer.
void Decider::polish() {
  auto tryChanged = [&](const std::optional<Config> &changed,
                        const char *line) {
    if (!changed)
      return;
    std::vector<std::string> lines = best->lines;
    lines.push_back(line);
    if (std::optional<Predicted> predicted = tryPredict(*changed))
      offer({std::move(*predicted), std::move(lines)});
  };
  if (mayRotate() && best->predicted.config.rotate != RotateChoice::Ring) {
    Config ring = best->predicted.config;
    ring.rotate = RotateChoice::Ring;
    tryChanged(ring, "  keys and values are passed on");
  }
  tryChanged(withChange(best->predicted.config, kFlat, cluster),
             "  buckets lie flat where they can");
  tryChanged(withChange(best->predicted.config, kInFlight, cluster),
             "  reductions are waited for when two more have started");
}

DecidedSchedule Decider::run() {
  Answer fallback{predict(module, config, cluster), {}};
  std::string had = formatMilliseconds(fallback.predicted.prediction.seconds) +
                    " ms and " +
                    formatBytes(fallback.predicted.prediction.held());
  budget = getBudget(config, fallback.predicted.prediction);
  uint64_t fallbackHeld = fallback.predicted.prediction.held();
  std::optional<PeerSchedule> deepCompile;
  if (options.prefetches)
    deepCompile = applyDeepCompile(fallback.predicted, config, cluster);
  offer(std::move(fallback));
  listStarts();
  searchWithin();
  if (!best)
    searchLeast(fallbackHeld);
  offerPeers(deepCompile);
  polish();

  DecidedSchedule result;
  const Prediction &prediction = best->predicted.prediction;
  if (best->lines.empty())
    result.reasons.push_back("schedule: auto keeps the default's schedule, " +
                             had + " predicted within " + formatBytes(budget) +
                             "; nothing that was found is faster");
  else
    result.reasons.push_back(
        "schedule: auto takes " + formatMilliseconds(prediction.seconds) +
        " ms and " + formatBytes(prediction.held()) + " predicted within " +
        formatBytes(budget) + "; the default's " +
        (fallbackHeld <= budget ? "is slower: " : "does not fit: ") + had);
  llvm::append_range(result.reasons, best->lines);
  result.config = best->predicted.config;
  result.compiled = std::move(best->predicted);
  return result;
}

/// For the types that were chosen.
static DecidedSchedule decideByRule(ModuleOp module, const Config &config,
                                    const Cluster &cluster) {
  if (config.planner == Planner::Default)
    return {config, {}, {}};
  if (isForInference(module))
    return {config,
            {},
            {"schedule decides about training; the rules of the other keys "
             "hold"}};
  if (config.planner == Planner::Auto)
    return Decider(module, config, cluster).run();
  PeerSchedule rule = applyPeerRule(module, config, cluster);
  return {
      rule.config,
      {},
      {"schedule: " + std::string(getName(config.planner)) + ": " + rule.what}};
}

DecidedSchedule fsdp::decideSchedule(ModuleOp module, const Config &config,
                                     const Cluster &cluster) {
  DecidedTypes types = decideTypes(module, config, cluster);
  DecidedSchedule decided = decideByRule(module, types.config, cluster);
  decided.reasons.insert(decided.reasons.begin(), types.reasons.begin(),
                         types.reasons.end());
  return decided;
}

Predicted fsdp::predictDecided(ModuleOp module, const Config &config,
                               const Cluster &cluster) {
  DecidedSchedule decided = decideSchedule(module, config, cluster);
  return decided.compiled ? std::move(*decided.compiled)
                          : predict(module, decided.config, cluster);
}
