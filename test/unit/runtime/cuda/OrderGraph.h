//===- OrderGraph.h - Which waits order accesses ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// HappensBefore.h says whether a run's accesses are ordered. This one keeps all
// of a run, works and what came after what, so that it can be asked about runs
// that differ in one wait: every pair of accesses to the same byte is looked
// at, with an order that is found by following edges.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_ORDERGRAPH_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_ORDERGRAPH_H

#include "HappensBefore.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::test {

/// Bytes that a work uses. `what` names it and them.
struct ByteUse {
  const void *begin;
  size_t bytes;
  bool isWrite;
  std::string what;
};

/// What a wait is for.
enum class WaitNeed {
  needed,  ///< without it two accesses that conflict have no order
  implied, ///< without it all works have the order that they have with it
  idle     ///< what it alone orders does not conflict
};

class OrderGraph {
public:
  /// What an actor has come to; 0: nothing.
  using Node = uint32_t;

  Node now(size_t actor) const { return actor < last.size() ? last[actor] : 0; }
  void work(size_t actor, const std::vector<ByteUse> &uses);
  void forget(const void *begin, size_t bytes);
  /// The actor comes after `known`. `isWait`: as it waits for that.
  void follow(size_t actor, Node known, bool isWait);
  /// The same, where it was to come after `right`.
  void plant(size_t actor, Node right, Node known);

  struct Wait {
    size_t actor, awaited;
    WaitNeed need;
  };
  /// Of each wait, whether a run without it were another.
  std::vector<Wait> judgeWaits() const;
  /// Of the wait that went wrong: whether the run with the right one is. None
  /// if there was none.
  std::optional<WaitNeed> judgePlanted() const;

private:
  struct Step {
    size_t actor;
    Node before = 0, known = 0;
    uint32_t work = 0; ///< from 1; 0: none
  };
  struct Change {
    Node node, right;
  };
  /// By node: the works that come before it or are it.
  class Order;
  using Pair = std::pair<uint32_t, uint32_t>; ///< works, the earlier one first

  Node &add(size_t actor);
  void use(uintptr_t begin, uintptr_t end, bool isWrite, uint32_t work);
  WaitNeed compare(const Order &with, const Order &without) const;

  std::vector<Step> steps{{}}; ///< by node
  std::vector<Node> last;      ///< by actor
  std::vector<Node> works{0};  ///< by work: its node
  std::vector<Node> waits;
  std::optional<Change> planted;
  struct Bytes {
    uintptr_t end;
    std::vector<std::pair<uint32_t, bool>> uses; ///< work, whether it writes
  };
  std::map<uintptr_t, Bytes> memory;
  std::map<uintptr_t, Bytes>::iterator splitAt(uintptr_t at);
  std::set<Pair> conflicts; ///< of different actors
};

/// Both of them, told of the same.
class CheckedOrder {
public:
  using Actor = HappensBefore::Actor;
  struct Known {
    HappensBefore::Clock clock;
    OrderGraph::Node node = 0;
  };

  /// Keeps what is asked about later; to be called before all else.
  void keep() { graph.emplace(); }

  Actor add(std::string name) { return clocks.add(std::move(name)); }
  Known known(Actor actor) const {
    return {clocks.clock(actor), graph ? graph->now(actor) : 0};
  }
  void follow(Actor actor, const Known &known, bool isWait = false) {
    clocks.follow(actor, known.clock);
    if (graph)
      graph->follow(actor, known.node, isWait);
  }
  /// Follows `known`, where `right` was to be followed.
  void plant(Actor actor, const Known &right, const Known &known) {
    clocks.follow(actor, known.clock);
    if (graph)
      graph->plant(actor, right.node, known.node);
  }
  void work(Actor actor, const std::vector<ByteUse> &uses) {
    clocks.begin(actor);
    for (const ByteUse &use : uses)
      clocks.access(actor, use.begin, use.bytes, use.isWrite, use.what);
    if (graph)
      graph->work(actor, uses);
  }
  void forget(const void *begin, size_t bytes) {
    clocks.forget(begin, bytes);
    if (graph)
      graph->forget(begin, bytes);
  }

  const HappensBefore &seen() const { return clocks; }
  const std::optional<OrderGraph> &kept() const { return graph; }

private:
  HappensBefore clocks;
  std::optional<OrderGraph> graph;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_ORDERGRAPH_H
