//===- PackingSearch.cpp - Packings of a given height ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/PackingSearch.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

using namespace fsdp;

/// Nodes that a descent may visit, over the number of buffers: most succeed
/// with hardly more than one node each, and beginning again teaches more than
/// going on.
static constexpr int64_t kNodesNumerator = 13, kNodesDenominator = 10;

std::array<int64_t, 3> PackingSearch::Buffer::getKeys(int ranking) const {
  switch (ranking) {
  case 0:
    return {pressure, area(), lifetime()};
  case 1:
    return {area(), lifetime(), pressure};
  case 2:
    return {pressure, lifetime(), area()};
  case 3:
    return {lifetime(), area(), pressure};
  default:
    return {bytes, lifetime(), pressure};
  }
}

PackingSearch::PackingSearch(std::span<const Interval> intervals)
    : intervalCount(intervals.size()) {
  // Deaths come in front of births. Only moments after a birth and before a
  // death matter: any other has no more alive than one of these.
  std::vector<std::pair<int64_t, bool>> events;
  for (const Interval &interval : intervals)
    if (interval.bytes > 0) {
      events.emplace_back(interval.first, true);
      events.emplace_back(interval.last + 1, false);
    }
  std::sort(events.begin(), events.end());
  std::vector<int64_t> times;
  for (size_t i = 0; i < events.size(); ++i)
    if (events[i].second && !events[i + 1].second)
      times.push_back(events[i].first);
  moments = times.size();
  auto count = [&](auto end) {
    return static_cast<unsigned>(end - times.begin());
  };
  std::vector<int64_t> alive(moments, 0);
  for (unsigned i = 0; i < intervals.size(); ++i) {
    const Interval &interval = intervals[i];
    if (interval.bytes == 0)
      continue;
    Buffer buffer;
    buffer.bytes = alignUp(interval.bytes);
    buffer.alignment = getAlignment(interval.bytes);
    buffer.begin = count(std::ranges::lower_bound(times, interval.first));
    buffer.end = count(std::ranges::upper_bound(times, interval.last));
    buffer.interval = i;
    for (unsigned at = buffer.begin; at < buffer.end; ++at)
      alive[at] += buffer.bytes;
    buffers.push_back(buffer);
  }
  for (Buffer &buffer : buffers)
    buffer.pressure = *std::max_element(alive.begin() + buffer.begin,
                                        alive.begin() + buffer.end);
  for (Ranking &ranking : rankings)
    ranking.weights.assign(buffers.size(), 0);
}

int64_t PackingSearch::getDescentWork() const {
  int64_t count = static_cast<int64_t>(buffers.size());
  return count * (count + 2 * static_cast<int64_t>(moments));
}

/// Ranks the buffers by their key, raised by what was learnt.
void PackingSearch::sort(int ranking) {
  const std::vector<int64_t> &weights = rankings[ranking].weights;
  int64_t largest = 1;
  for (const Buffer &buffer : buffers)
    largest = std::max(largest, buffer.getKeys(ranking)[0]);
  // So that the product fits.
  int shift = std::max(
      0, static_cast<int>(std::bit_width(static_cast<uint64_t>(largest))) - 40);
  auto key = [&](unsigned i) {
    std::array<int64_t, 3> keys = buffers[i].getKeys(ranking);
    return std::pair((keys[0] >> shift) * (1000 + weights[i]), keys);
  };
  order.resize(buffers.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](unsigned a, unsigned b) { return key(a) > key(b); });
}

/// Raises the buffers that are alive where room was lacking.
void PackingSearch::learn(int ranking) {
  int64_t sum = std::accumulate(failures.begin(), failures.end(), int64_t{0});
  if (sum == 0)
    return;
  for (unsigned i = 0; i < buffers.size(); ++i) {
    const Buffer &buffer = buffers[i];
    int64_t most = *std::max_element(failures.begin() + buffer.begin,
                                     failures.begin() + buffer.end);
    int64_t &weight = rankings[ranking].weights[i];
    weight = weight * 7 / 10 + 2000 * most / sum;
  }
}

std::optional<Packing> PackingSearch::find(int64_t wanted, int64_t work) {
  workLimit = workDone + work;
  for (; workDone < workLimit; nextRanking = (nextRanking + 1) % kRankings) {
    int ranking = nextRanking;
    sort(ranking);
    failures.assign(moments, 0);
    if (descend(wanted)) {
      Packing packing;
      packing.offsets.assign(intervalCount, 0);
      for (unsigned rank = 0; rank < order.size(); ++rank) {
        const Buffer &buffer = buffers[order[rank]];
        packing.offsets[buffer.interval] = offsets[rank];
        packing.bytes = std::max(packing.bytes, offsets[rank] + buffer.bytes);
      }
      return packing;
    }
    learn(ranking);
  }
  return std::nullopt;
}

bool PackingSearch::descend(int64_t wanted) {
  goal = wanted;
  pending.clear();
  rest.assign(moments, 0);
  for (unsigned rank = 0; rank < order.size(); ++rank) {
    const Buffer &buffer = buffers[order[rank]];
    pending.push_back(
        {buffer.bytes, buffer.alignment, 0, buffer.begin, buffer.end, rank});
    for (unsigned at = buffer.begin; at < buffer.end; ++at)
      rest[at] += buffer.bytes;
  }
  offsets.assign(order.size(), 0);
  nodesLeft =
      static_cast<int64_t>(order.size()) * kNodesNumerator / kNodesDenominator +
      1;
  return placeRest(0, -1);
}

std::vector<PackingSearch::Candidate>
PackingSearch::listCandidates(int64_t lastOffset, int64_t lastRank) {
  // Nothing can begin above where one that is left could already end: that one
  // could be moved below.
  auto tightest = std::max_element(rest.begin(), rest.end());
  int64_t limit = goal - *tightest + 1;
  for (const Pending &each : pending)
    limit = std::min(limit, each.lowest + each.bytes);
  std::vector<Candidate> candidates;
  for (const Pending &each : pending)
    if (each.lowest < limit &&
        (each.lowest > lastOffset ||
         (each.lowest == lastOffset && each.rank > lastRank)))
      candidates.push_back({each.lowest, each.rank});
  if (candidates.empty())
    ++failures[tightest - rest.begin()];
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

/// Places what is pending at `lastOffset` or above: at it only what has a
/// higher rank than the last one, so that no set of buffers is tried twice.
bool PackingSearch::placeRest(int64_t lastOffset, int64_t lastRank) {
  if (pending.empty())
    return true;
  workDone += static_cast<int64_t>(pending.size()) + moments;
  if (--nodesLeft < 0 || workDone > workLimit)
    return false;
  std::vector<Candidate> candidates = listCandidates(lastOffset, lastRank);
  std::vector<std::pair<unsigned, int64_t>> raised; // of pending
  for (auto [offset, rank] : candidates) {
    auto at = std::ranges::lower_bound(pending, rank, {}, &Pending::rank);
    const Pending placed = *at;
    const size_t position = at - pending.begin();
    pending.erase(at);
    offsets[rank] = offset;
    int64_t top = offset + placed.bytes;
    for (unsigned moment = placed.begin; moment < placed.end; ++moment)
      rest[moment] -= placed.bytes;
    raised.clear();
    for (unsigned i = 0; i < pending.size(); ++i) {
      Pending &each = pending[i];
      if (each.lowest < top && each.begin < placed.end &&
          placed.begin < each.end) {
        raised.emplace_back(i, each.lowest);
        each.lowest = roundUp(top, each.alignment);
      }
    }
    workDone +=
        static_cast<int64_t>(pending.size()) + placed.end - placed.begin;
    if (placeRest(offset, rank))
      return true;
    // Descents that are given up are forgotten as a whole.
    if (nodesLeft < 0 || workDone > workLimit)
      return false;
    for (auto [i, before] : raised)
      pending[i].lowest = before;
    for (unsigned moment = placed.begin; moment < placed.end; ++moment)
      rest[moment] += placed.bytes;
    pending.insert(pending.begin() + position, placed);
  }
  return false;
}
