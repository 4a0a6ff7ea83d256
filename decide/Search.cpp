//===- Search.cpp - The best decisions within a budget --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "decide/Search.h"

#include <algorithm>
#include <limits>

using namespace fsdp;

/// A class of like buckets is given up in so many parts.
static constexpr size_t kParts = 24;

Search::Search(const StepModel &model, const SearchOptions &options)
    : model(model), options(options) {
  const std::vector<BucketFacts> &facts = model.buckets();
  std::vector<std::vector<size_t>> classes;
  for (size_t i = 0; i < facts.size(); ++i) {
    auto found = std::ranges::find_if(classes, [&](const auto &members) {
      return facts[members.front()].isLike(facts[i]);
    });
    if (found == classes.end())
      classes.push_back({i});
    else
      found->push_back(i);
  }
  for (const std::vector<size_t> &members : classes) {
    const BucketFacts &each = facts[members.front()];
    // Backward needs the last ones at once, and the first ones' activations
    // wait the longest.
    if (options.keeps && each.isRegathered)
      moves.push_back({Move::release, members});
    if (options.recomputes && each.dropped > 0)
      moves.push_back({Move::recompute, members});
    if (options.offloads && each.saved > 0)
      moves.push_back({Move::offload, members});
  }
  for (bool selective : {false, true})
    for (uint32_t prefetch = options.leastPrefetch;
         prefetch <= options.mostPrefetch; ++prefetch) {
      Decisions start = model.none();
      start.selective = selective;
      start.prefetch = prefetch;
      if (options.keeps)
        for (size_t i = 0; i < facts.size(); ++i)
          start.kept[i] = facts[i].isRegathered;
      if (!selective || options.recomputes)
        walk(start);
    }
  makeFrontier();
}

std::optional<Decisions> Search::apply(const Move &move, const Decisions &from,
                                       size_t count) const {
  Decisions to = from;
  size_t done = 0;
  for (size_t bucket : move.buckets) {
    if (done == count)
      break;
    switch (move.kind) {
    case Move::release:
      if (!to.kept[bucket])
        continue;
      to.kept[bucket] = false;
      break;
    case Move::recompute:
      if (to.recomputed[bucket] || to.offloaded[bucket])
        continue;
      to.recomputed[bucket] = true;
      break;
    case Move::offload:
      if (to.offloaded[bucket] || to.recomputed[bucket])
        continue;
      to.offloaded[bucket] = true;
      break;
    }
    ++done;
  }
  if (done == 0)
    return std::nullopt;
  return to;
}

void Search::walk(Decisions decisions) {
  Outcome outcome = model.evaluate(decisions);
  seen.push_back({decisions, outcome});
  for (;;) {
    std::optional<Candidate> best;
    double bestPrice = std::numeric_limits<double>::max();
    for (const Move &move : moves) {
      size_t part = std::max<size_t>(1, move.buckets.size() / kParts);
      std::optional<Decisions> next = apply(move, decisions, part);
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

std::optional<Candidate> Search::choose(uint64_t bytes) const {
  for (const Candidate &each : front)
    if (each.outcome.peak <= bytes)
      return each;
  return std::nullopt;
}
