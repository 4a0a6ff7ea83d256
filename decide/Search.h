//===- Search.h - The best decisions within a budget ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the decisions that take most memory and least time, one after another is
// given up, each time the one that costs the least time for the memory that it
// gives back. All that was passed on the way is kept, so that the answers for
// falling budgets follow one curve: a smaller budget never has a faster answer.
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
  uint32_t leastPrefetch = 1, mostPrefetch = 3;
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

  /// The fastest that needs at most `bytes`; none if all need more.
  std::optional<Candidate> choose(uint64_t bytes) const;

private:
  /// What may be given up: of one class of like buckets, the next.
  struct Move {
    enum Kind : uint8_t { release, recompute, offload } kind;
    std::vector<size_t> buckets; ///< in the order in which they are given up
  };

  void walk(Decisions decisions);
  std::optional<Decisions> apply(const Move &move, const Decisions &from,
                                 size_t count) const;
  void makeFrontier();

  const StepModel &model;
  const SearchOptions options;
  std::vector<Move> moves;
  std::vector<Candidate> seen, front;
};

} // namespace fsdp

#endif // FSDP_DECIDE_SEARCH_H
