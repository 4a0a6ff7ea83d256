//===- Search.h - The best decisions within a budget ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the decisions that take most memory and least time, one after another is
// given up, each time the one that costs the least time for the memory that it
// gives back. All that was passed on the way is kept, so that the answers for
// falling budgets follow one curve. Within one budget, what the curve has there
// is made better by exchanges: one decision is given up for another one.
// Deterministic: no clocks, no random numbers, ties by order.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DECIDE_SEARCH_H
#define FSDP_DECIDE_SEARCH_H

#include "decide/StepModel.h"

#include <optional>

namespace fsdp {

struct SearchOptions {
  bool keeps = true;      ///< buckets may stay gathered
  bool recomputes = true; ///< blocks may be computed again
  bool offloads = true;   ///< activations may wait on the host
  bool prefetches = true; ///< buckets may be gathered ahead as far as is best
  uint32_t mostPrefetch = 3;
};

/// Decisions with what they are predicted to give.
struct Candidate {
  Decisions decisions;
  Outcome outcome;
};

class Search {
public:
  /// `model` outlives it.
  Search(const StepModel &model, const SearchOptions &options);

  /// From the fastest to the smallest: each is slower and needs less than the
  /// one before it.
  const std::vector<Candidate> &frontier() const { return front; }

  /// The fastest of the frontier that needs at most `bytes`; none if all need
  /// more.
  std::optional<Candidate> find(uint64_t bytes) const;
  /// The same, made better by exchanges.
  std::optional<Candidate> choose(uint64_t bytes) const;
  /// Buckets and blocks, so that exchanges look at each.
  bool isOfFew() const { return isSmall; }

private:
  /// What one step gives up.
  enum Kind : uint8_t { release, gatherLater, select, recompute, offload };
  /// A class of like buckets or blocks that give it up.
  struct Move {
    Kind kind;
    std::vector<size_t> members; ///< in the order in which they do
  };

  void addMoves();
  void walk(Decisions decisions, bool selects, bool skips);
  /// `member` gives up `kind`; false if it has nothing to give.
  static bool give(Kind kind, size_t member, bool skips, Decisions &decisions);
  /// And the other way round.
  bool take(Kind kind, size_t member, Decisions &decisions) const;
  std::optional<Decisions> give(const Move &move, const Decisions &from,
                                size_t count, bool skips) const;
  void makeFrontier();
  Candidate improve(Candidate from, uint64_t bytes, bool exchanges,
                    size_t &left) const;
  Decisions getLeast() const;
  /// Single steps from `from` in one direction.
  std::vector<Decisions> listSteps(const Decisions &from, bool takes) const;

  const StepModel &model;
  const SearchOptions options;
  std::vector<Move> moves;
  bool isSmall = false; ///< each member can be tried by itself
  std::vector<Candidate> seen, front;
};

} // namespace fsdp

#endif // FSDP_DECIDE_SEARCH_H
