//===- Traffic.h - Bytes that a rank moves ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a collective costs a rank, as reports, dry runs, profiles and counters
// say it: what the rank receives in an all-gather, what it sends into a
// reduction, padding rows and its own part included, and what it passes on in a
// rotation.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_TRAFFIC_H
#define FSDP_PLAN_TRAFFIC_H

#include <cstdint>

namespace fsdp {

enum class CollectiveKind { allGather, reduceScatter, allReduce, rotate };

constexpr const char *getName(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::allGather:
    return "all_gather";
  case CollectiveKind::reduceScatter:
    return "reduce_scatter";
  case CollectiveKind::allReduce:
    return "all_reduce";
  case CollectiveKind::rotate:
    return "rotate";
  }
  return "";
}

/// Whether it combines what ranks bring.
constexpr bool isReduction(CollectiveKind kind) {
  return kind == CollectiveKind::reduceScatter ||
         kind == CollectiveKind::allReduce;
}

/// Of one tensor among `ranks` ranks. `part` is what the collective leaves
/// with, or takes from, one rank alone: a shard, or the whole tensor of an
/// all-reduce or a rotation.
constexpr uint64_t getTraffic(CollectiveKind kind, uint64_t part,
                              uint64_t ranks) {
  return kind == CollectiveKind::allReduce || kind == CollectiveKind::rotate
             ? part
             : part * ranks;
}

} // namespace fsdp

#endif // FSDP_PLAN_TRAFFIC_H
