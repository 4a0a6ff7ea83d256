//===- Search.cpp - The best decisions within a budget --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "decide/Search.h"

#include <algorithm>
#include <limits>

using namespace fsdp;

/// A class of like members gives up in so many parts.
static constexpr size_t kParts = 24;
/// Up to so many buckets and blocks, exchanges look at each of them.
static constexpr size_t kSmall = 16;
/// Evaluations that exchanges within one budget may take: a second or two for
/// the largest decoders.
static constexpr size_t kExchanges = 4000;
/// Points of the curve that exchanges begin from.
static constexpr size_t kBeginnings = 3;

/// Indices of like facts, in the order of the first of each class.
template <typename Facts>
static std::vector<std::vector<size_t>>
classify(const std::vector<Facts> &all) {
  std::vector<std::vector<size_t>> classes;
  for (size_t i = 0; i < all.size(); ++i) {
    auto found = std::ranges::find_if(classes, [&](const auto &members) {
      return all[members.front()].isLike(all[i]);
    });
    if (found == classes.end())
      classes.push_back({i});
    else
      found->push_back(i);
  }
  return classes;
}

/// Backward needs the last buckets at once, and the first blocks' activations
/// wait the longest: members give up in their order.
void Search::addMoves() {
  const std::vector<BucketFacts> &buckets = model.buckets();
  for (std::vector<size_t> &members : classify(buckets)) {
    if (options.keeps && buckets[members.front()].isRegathered)
      moves.push_back({release, members});
    if (options.prefetches && buckets[members.front()].gathered > 0)
      moves.push_back({gatherLater, members});
  }
  const std::vector<BlockFacts> &blocks = model.blocks();
  for (std::vector<size_t> &members : classify(blocks)) {
    const BlockFacts &each = blocks[members.front()];
    if (options.recomputes && each.selected > 0)
      moves.push_back({select, members});
    if (options.recomputes && each.dropped > 0)
      moves.push_back({recompute, members});
    if (options.offloads && each.saved > 0)
      moves.push_back({offload, members});
  }
  isSmall = buckets.size() + blocks.size() <= kSmall;
}

Search::Search(const StepModel &model, const SearchOptions &options)
    : model(model), options(options) {
  addMoves();
  Decisions start = model.none();
  if (options.keeps)
    for (size_t i = 0; i < start.kept.size(); ++i)
      start.kept[i] = model.buckets()[i].isRegathered;
  std::vector<uint32_t> distances{1};
  if (options.mostPrefetch > 1)
    distances.push_back(options.mostPrefetch);
  for (uint32_t distance : distances) {
    if (options.prefetches)
      start.prefetch.assign(start.prefetch.size(), distance);
    else if (distance > 1)
      break;
    // Full recomputation alone, selective first, and whatever is cheapest.
    walk(start, /*selects=*/false, /*skips=*/true);
    if (!options.recomputes)
      continue;
    walk(start, /*selects=*/true, /*skips=*/false);
    walk(start, /*selects=*/true, /*skips=*/true);
  }
  makeFrontier();
}

bool Search::give(Kind kind, size_t member, bool skips, Decisions &decisions) {
  switch (kind) {
  case release:
    if (!decisions.kept[member])
      return false;
    decisions.kept[member] = false;
    return true;
  case gatherLater:
    if (decisions.prefetch[member] == 0)
      return false;
    --decisions.prefetch[member];
    return true;
  case select:
    if (decisions.recomputed[member] != Recomputed::none ||
        decisions.offloaded[member])
      return false;
    decisions.recomputed[member] = Recomputed::selective;
    return true;
  case recompute:
    if (decisions.recomputed[member] == Recomputed::full ||
        decisions.offloaded[member] ||
        (!skips && decisions.recomputed[member] == Recomputed::none))
      return false;
    decisions.recomputed[member] = Recomputed::full;
    return true;
  case offload:
    if (decisions.offloaded[member] ||
        decisions.recomputed[member] != Recomputed::none)
      return false;
    decisions.offloaded[member] = true;
    return true;
  }
  return false;
}

bool Search::take(Kind kind, size_t member, Decisions &decisions) const {
  switch (kind) {
  case release:
    if (decisions.kept[member])
      return false;
    decisions.kept[member] = true;
    return true;
  case gatherLater:
    if (decisions.prefetch[member] >= options.mostPrefetch)
      return false;
    ++decisions.prefetch[member];
    return true;
  case select:
    if (decisions.recomputed[member] != Recomputed::full ||
        model.blocks()[member].selected == 0)
      return false;
    decisions.recomputed[member] = Recomputed::selective;
    return true;
  case recompute:
    if (decisions.recomputed[member] == Recomputed::none)
      return false;
    decisions.recomputed[member] = Recomputed::none;
    return true;
  case offload:
    if (!decisions.offloaded[member])
      return false;
    decisions.offloaded[member] = false;
    return true;
  }
  return false;
}

std::optional<Decisions> Search::give(const Move &move, const Decisions &from,
                                      size_t count, bool skips) const {
  Decisions to = from;
  size_t done = 0;
  for (size_t member : move.members) {
    if (done == count)
      break;
    done += give(move.kind, member, skips, to);
  }
  if (done == 0)
    return std::nullopt;
  return to;
}

void Search::walk(Decisions decisions, bool selects, bool skips) {
  Outcome outcome = model.evaluate(decisions);
  seen.push_back({decisions, outcome});
  for (;;) {
    std::optional<Candidate> best;
    double bestPrice = std::numeric_limits<double>::max();
    for (const Move &move : moves) {
      if (move.kind == select && !selects)
        continue;
      // One that is gathered early takes those in front of it along.
      size_t part = move.kind == gatherLater
                        ? move.members.size()
                        : std::max<size_t>(1, move.members.size() / kParts);
      std::optional<Decisions> next = give(move, decisions, part, skips);
      if (!next)
        continue;
      Outcome result = model.evaluate(*next);
      double gain = double(outcome.peak) - double(result.peak);
      double cost = result.seconds - outcome.seconds;
      // What frees nothing now may when others have been given up: last.
      double price =
          gain > 0 ? std::max(cost, 0.0) / gain : 1e6 + std::max(cost, 0.0);
      if (price < bestPrice) {
        bestPrice = price;
        best = {std::move(*next), result};
      }
    }
    if (!best)
      return;
    decisions = best->decisions;
    outcome = best->outcome;
    seen.push_back(std::move(*best));
  }
}

void Search::makeFrontier() {
  std::ranges::stable_sort(seen, [](const Candidate &a, const Candidate &b) {
    return a.outcome.seconds != b.outcome.seconds
               ? a.outcome.seconds < b.outcome.seconds
               : a.outcome.peak < b.outcome.peak;
  });
  for (Candidate &each : seen)
    if (front.empty() || each.outcome.peak < front.back().outcome.peak)
      front.push_back(std::move(each));
  seen.clear();
}

std::vector<Decisions> Search::listSteps(const Decisions &from,
                                         bool takes) const {
  std::vector<Decisions> steps;
  for (const Move &move : moves) {
    auto step = [&](size_t member, Decisions &to) {
      return takes ? take(move.kind, member, to)
                   : give(move.kind, member, /*skips=*/true, to);
    };
    // What was given up last is taken back first.
    std::vector<size_t> members = move.members;
    if (takes)
      std::ranges::reverse(members);
    if (move.kind == gatherLater && members.size() > 1) {
      Decisions all = from;
      bool isAny = false;
      for (size_t member : members)
        isAny |= step(member, all);
      if (isAny)
        steps.push_back(std::move(all));
    }
    for (size_t member : members) {
      Decisions to = from;
      if (!step(member, to))
        continue;
      steps.push_back(std::move(to));
      if (!isSmall)
        break;
    }
  }
  return steps;
}

/// Takes back what fits; with `exchanges` at the cost of something else where
/// need be. `left` are the evaluations that it may take.
Candidate Search::improve(Candidate from, uint64_t bytes, bool exchanges,
                          size_t &left) const {
  for (;;) {
    std::optional<Candidate> best;
    auto consider = [&](const Decisions &decisions) {
      if (left == 0 || decisions == from.decisions)
        return;
      --left;
      Outcome outcome = model.evaluate(decisions);
      double least = best ? best->outcome.seconds : from.outcome.seconds;
      if (outcome.peak <= bytes && outcome.seconds < (1 - 1e-9) * least)
        best = {decisions, outcome};
    };
    for (const Decisions &each : listSteps(from.decisions, /*takes=*/true))
      consider(each);
    // With overlap, less is sometimes faster.
    std::vector<Decisions> given = listSteps(from.decisions, /*takes=*/false);
    for (const Decisions &each : given)
      consider(each);
    for (size_t i = 0; exchanges && !best && i < given.size(); ++i)
      for (const Decisions &other : listSteps(given[i], /*takes=*/true))
        consider(other);
    for (size_t i = 0; exchanges && isSmall && !best && i < given.size(); ++i)
      for (const Decisions &second : listSteps(given[i], /*takes=*/false))
        for (const Decisions &other : listSteps(second, /*takes=*/true))
          consider(other);
    if (!best)
      return from;
    from = std::move(*best);
  }
}

std::optional<Candidate> Search::find(uint64_t bytes) const {
  for (const Candidate &each : front)
    if (each.outcome.peak <= bytes)
      return each;
  return std::nullopt;
}

/// All that can be given up is.
Decisions Search::getLeast() const {
  Decisions least = front.front().decisions;
  for (const Move &move : moves)
    if (move.kind != select && move.kind != offload)
      for (size_t member : move.members)
        while (give(move.kind, member, /*skips=*/true, least)) {
        }
  return least;
}

std::optional<Candidate> Search::choose(uint64_t bytes) const {
  std::optional<Candidate> best;
  size_t begun = 0, left = kExchanges;
  auto begin = [&](Candidate from, bool exchanges) {
    if (from.outcome.peak > bytes)
      return false;
    Candidate better = improve(std::move(from), bytes, exchanges, left);
    if (!best || better.outcome.seconds < best->outcome.seconds)
      best = std::move(better);
    return true;
  };
  // Where little fits, what can be taken back first decides about the rest.
  if (isSmall)
    for (const Decisions &each : listSteps(getLeast(), /*takes=*/true))
      begin({each, model.evaluate(each)}, /*exchanges=*/false);
  if (best)
    best = improve(std::move(*best), bytes, /*exchanges=*/true, left);
  for (const Candidate &each : front)
    if (begun < kBeginnings && begin(each, /*exchanges=*/true))
      ++begun;
  return best;
}
