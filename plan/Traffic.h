//===- Traffic.h - What collectives do, and cost a rank ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kinds of collectives, with all that is known of each by itself; who
// moves, counts, plans, predicts or measures them asks here.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_TRAFFIC_H
#define FSDP_PLAN_TRAFFIC_H

#include "plan/plan_generated.h"

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace fsdp {

using plan::CollectiveKind;

/// What of a tensor is `ranks` times as large as a rank's part of it: what each
/// rank gives, or gets, with the parts of all ranks behind each other.
enum class Whole { neither, given, got, both };

/// Whether all ranks' parts are in what a rank gives, or in what it gets.
constexpr bool isWholeGiven(Whole whole) {
  return whole == Whole::given || whole == Whole::both;
}
constexpr bool isWholeGot(Whole whole) {
  return whole == Whole::got || whole == Whole::both;
}

/// Which members of a transfer over sockets are packed into one message.
enum class Packing { none, small, all };

struct CollectiveFacts {
  CollectiveKind kind;
  Whole whole;
  bool reduces;   ///< combines what ranks give
  bool isInPlace; ///< what a rank gets takes the place of what it gave
  Packing packing;
};

inline constexpr CollectiveFacts kCollectives[] = {
    {CollectiveKind::all_gather, Whole::got, false, false, Packing::small},
    {CollectiveKind::reduce_scatter, Whole::given, true, false, Packing::small},
    {CollectiveKind::all_reduce, Whole::neither, true, true, Packing::all},
    // Each rank gets what the one before it in the group gives.
    {CollectiveKind::rotate, Whole::neither, false, false, Packing::none},
    // Part j of rank r goes to rank j, which has it as part r.
    {CollectiveKind::all_to_all, Whole::both, false, false, Packing::small},
};
static_assert([] {
  size_t count = std::size(kCollectives);
  for (size_t i = 0; i < count; ++i)
    if (size_t(kCollectives[i].kind) != i)
      return false;
  return count == size_t(CollectiveKind::MAX) + 1;
}());

/// Of a kind that there is.
constexpr const CollectiveFacts &getFacts(CollectiveKind kind) {
  return kCollectives[size_t(kind)];
}

/// "all_gather".
inline const char *getName(CollectiveKind kind) {
  return plan::EnumNameCollectiveKind(kind);
}

/// Whether it combines what ranks bring.
constexpr bool isReduction(CollectiveKind kind) {
  return getFacts(kind).reduces;
}

/// Bytes that a rank moves, as reports, dry runs, profiles and counters say
/// them: what it receives in an all-gather, what it sends into a reduction,
/// padding rows and its own part included, what it passes on in a rotation, and
/// what it gives, its own part included, of what all exchange. Of one tensor
/// among `ranks` ranks; `part` is what the collective leaves with, or takes
/// from, one rank alone: a shard, what one rank gives another, or the whole
/// tensor of an all-reduce or a rotation.
constexpr uint64_t getTraffic(CollectiveKind kind, uint64_t part,
                              uint64_t ranks) {
  return getFacts(kind).whole == Whole::neither ? part : part * ranks;
}

/// The same by what a rank gives and gets of one tensor, in the type that
/// travels. What is whole may lack the rows that fill its last part.
constexpr uint64_t getTraffic(CollectiveKind kind, uint64_t given, uint64_t got,
                              uint64_t ranks) {
  switch (getFacts(kind).whole) {
  case Whole::given:
    return getTraffic(kind, got, ranks);
  case Whole::got:
    return getTraffic(kind, given, ranks);
  case Whole::neither:
  case Whole::both:
    break;
  }
  return given;
}

} // namespace fsdp

#endif // FSDP_PLAN_TRAFFIC_H
