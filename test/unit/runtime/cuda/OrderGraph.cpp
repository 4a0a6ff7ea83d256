//===- OrderGraph.cpp - Which waits order accesses ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "OrderGraph.h"

#include <algorithm>

using namespace fsdp::test;

/// A row of bits for each node, of which bit w says that work w comes before.
/// Nodes come after those that they follow.
class OrderGraph::Order {
public:
  explicit Order(const OrderGraph &graph)
      : graph(graph), words(graph.works.size() / 64 + 1),
        bits(graph.steps.size() * words) {}

  /// Where the graph has other edges: `known` is what the node of `change`
  /// follows.
  void compute(const Order *base, Node node, Node known) {
    if (base)
      std::copy_n(base->bits.begin(), node * words, bits.begin());
    for (Node each = base ? node : 1; each < graph.steps.size(); ++each) {
      const Step &step = graph.steps[each];
      uint64_t *own = row(each);
      const uint64_t *before = row(step.before),
                     *other = row(each == node ? known : step.known);
      for (size_t i = 0; i < words; ++i)
        own[i] = before[i] | other[i];
      if (step.work)
        own[step.work / 64] |= uint64_t(1) << step.work % 64;
    }
  }

  bool isBefore(uint32_t earlier, uint32_t later) const {
    return row(graph.works[later])[earlier / 64] >> earlier % 64 & 1;
  }
  bool isSame(const Order &other, Node node) const {
    return std::equal(row(node), row(node) + words, other.row(node));
  }

private:
  uint64_t *row(Node node) { return &bits[node * words]; }
  const uint64_t *row(Node node) const { return &bits[node * words]; }

  const OrderGraph &graph;
  const size_t words;
  std::vector<uint64_t> bits;
};

OrderGraph::Node &OrderGraph::add(size_t actor) {
  last.resize(std::max(last.size(), actor + 1));
  steps.push_back({actor, last[actor], 0, 0});
  last[actor] = static_cast<Node>(steps.size() - 1);
  return last[actor];
}

void OrderGraph::follow(size_t actor, Node known, bool isWait) {
  // What the actor knows already has no step of its own, but waits.
  if (known == 0 && !isWait)
    return;
  Node node = add(actor);
  steps[node].known = known;
  if (isWait)
    waits.push_back(node);
}

void OrderGraph::plant(size_t actor, Node right, Node known) {
  Node node = add(actor);
  steps[node].known = known;
  planted = Change{node, right};
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

/// The first part that begins at `at` or behind it, none reaching across.
std::map<uintptr_t, OrderGraph::Bytes>::iterator
OrderGraph::splitAt(uintptr_t at) {
  auto next = memory.lower_bound(at);
  if (next == memory.begin())
    return next;
  auto before = std::prev(next);
  if (before->second.end <= at)
    return next;
  Bytes behind = before->second;
  before->second.end = at;
  return memory.emplace_hint(next, at, std::move(behind));
}

void OrderGraph::forget(const void *begin, size_t bytes) {
  auto from = reinterpret_cast<uintptr_t>(begin);
  auto first = splitAt(from);
  memory.erase(first, splitAt(from + bytes));
}

void OrderGraph::work(size_t actor, const std::vector<ByteUse> &uses) {
  Node node = add(actor);
  works.push_back(node);
  auto number = static_cast<uint32_t>(works.size() - 1);
  steps[node].work = number;
  for (const ByteUse &each : uses) {
    auto begin = reinterpret_cast<uintptr_t>(each.begin);
    if (each.bytes)
      use(begin, begin + each.bytes, each.isWrite, number);
  }
}

void OrderGraph::use(uintptr_t begin, uintptr_t end, bool isWrite,
                     uint32_t work) {
  auto part = splitAt(begin);
  splitAt(end);
  const size_t actor = steps[works[work]].actor;
  while (begin < end) {
    if (part == memory.end() || part->first > begin) {
      uintptr_t gapEnd =
          part == memory.end() ? end : std::min(end, part->first);
      part = memory.emplace_hint(part, begin, Bytes{gapEnd, {}});
    }
    for (auto [other, wrote] : part->second.uses)
      if ((isWrite || wrote) && steps[works[other]].actor != actor)
        conflicts.insert({other, work});
    part->second.uses.emplace_back(work, isWrite);
    begin = part->second.end;
    ++part;
  }
}

//===----------------------------------------------------------------------===//
// Judgement
//===----------------------------------------------------------------------===//

WaitNeed OrderGraph::compare(const Order &with, const Order &without) const {
  for (auto [earlier, later] : conflicts)
    if (with.isBefore(earlier, later) && !without.isBefore(earlier, later))
      return WaitNeed::needed;
  bool isSame = std::all_of(works.begin() + 1, works.end(), [&](Node node) {
    return with.isSame(without, node);
  });
  return isSame ? WaitNeed::implied : WaitNeed::idle;
}

std::vector<OrderGraph::Wait> OrderGraph::judgeWaits() const {
  Order with(*this), without(*this);
  with.compute(nullptr, 0, 0);
  std::vector<Wait> judged;
  for (Node wait : waits) {
    without.compute(&with, wait, 0);
    judged.push_back({steps[wait].actor, steps[steps[wait].known].actor,
                      compare(with, without)});
  }
  return judged;
}

std::optional<WaitNeed> OrderGraph::judgePlanted() const {
  if (!planted)
    return std::nullopt;
  Order with(*this), without(*this);
  with.compute(nullptr, planted->node, planted->right);
  without.compute(&with, planted->node, steps[planted->node].known);
  return compare(with, without);
}
