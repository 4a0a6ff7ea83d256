//===- CollectiveModel.h - Seconds of transfers -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_COLLECTIVEMODEL_H
#define FSDP_SIMULATE_COLLECTIVEMODEL_H

#include "simulate/Cluster.h"

namespace fsdp {

/// A transfer that has all that it uses to itself, and what share of it that
/// is.
struct TransferCost {
  double seconds = 0;
  double link = 0, network = 0, memory = 0, processor = 0;
  /// Of the thread that computes, before and after `seconds`.
  double start = 0, finish = 0;
  /// As LaneStep's.
  double beside = 0, lost = 0;
};

/// How a group lies on nodes whose ranks count on.
struct GroupShape {
  int64_t ranks = 1;
  int64_t nodes = 1;   ///< that it reaches
  int64_t perNode = 1; ///< ranks of it on each
};
GroupShape getShape(const plan::GroupT &group, int64_t ranksPerNode);

/// What was measured for such a group; else rings, and messages where parts are
/// exchanged, by NCCL's own model of its
/// protocols (src/graph/tuning.cc, 2.30) or by latency and bandwidth.
class CollectiveModel {
public:
  /// `cluster` outlives it.
  explicit CollectiveModel(const Cluster &cluster) : cluster(cluster) {}

  /// `bytes` as plan/Traffic.h counts them: of the whole tensors, which move in
  /// so many `pieces`: one of each tensor, but for small ones that gloo packs.
  TransferCost collective(CollectiveKind kind, double bytes,
                          const plan::GroupT &group, size_t pieces = 1) const;
  /// `count` tensors between a rank's memories.
  TransferCost copy(bool toHost, double bytes, size_t count) const;

private:
  const MeasuredCollective *findMeasured(CollectiveKind kind,
                                         const GroupShape &shape) const;
  double exchange(double bytes, const GroupShape &shape) const;
  double ring(CollectiveKind kind, double bytes, const GroupShape &shape) const;

  const Cluster &cluster;
};

} // namespace fsdp

#endif // FSDP_SIMULATE_COLLECTIVEMODEL_H
