//===- PackingSearch.h - Packings of a given height -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where greedy packers end above the lower bound: a depth-first search for
// offsets below a goal, after the ideas of MiniMalloc (Moffitt, ASPLOS 2023).
//
// Any packing can be pushed down until each buffer lies at zero or on top of
// another one that is alive at the same time. So it is enough to place buffers
// by rising offset, each as low as those below it allow. At each time, what is
// still to be placed must fit between the offset that was reached and the goal;
// if it does not, the choice before was wrong.
//
// Descents that go wrong too often are begun again with another ranking of the
// buffers, in which those that lacked room come earlier. Everything is counted
// in steps and computed in integers, so results depend on the input alone.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PLAN_PACKINGSEARCH_H
#define FSDP_PASSES_PLAN_PACKINGSEARCH_H

#include "passes/plan/Packing.h"

#include <array>
#include <optional>

namespace fsdp {

class PackingSearch {
public:
  explicit PackingSearch(std::span<const Interval> intervals);

  /// A packing of at most `goal` bytes. Nothing if none was found in `work`
  /// steps, or if there is none. Learns for the next call.
  std::optional<Packing> find(int64_t goal, int64_t work);

  /// Steps of all calls so far.
  int64_t getWork() const { return workDone; }

  /// Steps of a descent that makes no mistake, from above.
  int64_t getDescentWork() const;

private:
  struct Buffer {
    int64_t bytes;        ///< aligned
    int64_t alignment;    ///< of its offset
    unsigned begin, end;  ///< moments; the end is excluded
    int64_t pressure = 0; ///< highest sum of bytes alive with it
    unsigned interval;    ///< its number for the caller
    int64_t area() const { return bytes * lifetime(); }
    int64_t lifetime() const { return end - begin; }
    /// What a ranking sorts by; the first counts, the others break ties.
    std::array<int64_t, 3> getKeys(int ranking) const;
  };

  /// What the descents of a ranking have taught: by how much each buffer's key
  /// is raised, in thousandths.
  struct Ranking {
    std::vector<int64_t> weights;
  };

  void sort(int ranking);
  void learn(int ranking);
  bool descend(int64_t goal);
  struct Candidate {
    int64_t offset;
    unsigned rank;
    auto operator<=>(const Candidate &) const = default;
  };
  /// What `placeRest` may place first, in order; if there is nothing, counts
  /// the moment that lacked room.
  std::vector<Candidate> listCandidates(int64_t lastOffset, int64_t lastRank);
  bool placeRest(int64_t lastOffset, int64_t lastRank);

  static constexpr int kRankings = 5;
  size_t intervalCount;
  std::vector<Buffer> buffers;
  unsigned moments = 0;
  std::array<Ranking, kRankings> rankings;
  int nextRanking = 0;

  // Of the descent that is under way.
  struct Pending {
    int64_t bytes, alignment;
    int64_t lowest; ///< offset, on top of all below that live with it
    unsigned begin, end, rank;
  };
  int64_t goal = 0, workDone = 0, workLimit = 0, nodesLeft = 0;
  std::vector<unsigned> order;   ///< buffers by rank
  std::vector<Pending> pending;  ///< still to be placed, by rank
  std::vector<int64_t> rest;     ///< by moment: bytes still to be placed
  std::vector<int64_t> offsets;  ///< by rank
  std::vector<int64_t> failures; ///< by moment: how often room was lacking
};

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_PACKINGSEARCH_H
