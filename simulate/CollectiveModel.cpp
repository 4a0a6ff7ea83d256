//===- CollectiveModel.cpp - Seconds of transfers -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/CollectiveModel.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace fsdp;

GroupShape fsdp::getShape(const plan::GroupT &group, int64_t ranksPerNode) {
  GroupShape shape;
  shape.ranks = group.size;
  int64_t stride = std::max<int64_t>(group.stride, 1);
  shape.perNode = std::clamp<int64_t>(ranksPerNode / stride, 1,
                                      std::max(shape.ranks, int64_t(1)));
  shape.nodes = (shape.ranks + shape.perNode - 1) / shape.perNode;
  return shape;
}

namespace {
/// Microseconds and shares of NCCL's three protocols, of a ring over NVLink.
struct Protocol {
  double base, intra, inter;
  double share; ///< of the bandwidth
  double most;  ///< GB/s on a node, on two, on more
  double mostOnTwo, mostOnMore;
};
constexpr double kUnlimited = std::numeric_limits<double>::max();
constexpr Protocol kProtocols[] = {
    {6.6, 0.6, 2.7, 0.5, 141, 45, 35},                          // LL
    {14.0, 1.9, 4.0, 0.92, kUnlimited, kUnlimited, kUnlimited}, // LL128
    {8.4, 3.4, 14.0, 1.0, kUnlimited, kUnlimited, kUnlimited},  // Simple
};

/// A rank's own part passes through its multiprocessors, which copy or add it
/// so many times as fast as a link moves it. With this, and the bandwidth of
/// all links, H100s measured by XLA are met for 2, 4 and 8 ranks (Simulate.md).
constexpr double kOwnGather = 2.25, kOwnReduce = 1.05;

/// What rings over several nodes reach of their bandwidth, by the bytes of each
/// rank: messages are too short for the adapters below.
double reachedOverNodes(double bytesOfRank) {
  if (bytesOfRank >= 32e6)
    return 0.87;
  return bytesOfRank >= 8e6 ? 0.79 : 0.68;
}

/// In each of `steps` steps of a ring every link passes on one of so many
/// parts.
struct Ring {
  double steps, parts;

  Ring(CollectiveKind kind, double ranks)
      : steps(kind == CollectiveKind::rotate       ? 1
              : kind == CollectiveKind::all_reduce ? 2 * (ranks - 1)
                                                   : ranks - 1),
        parts(kind == CollectiveKind::rotate ? 1 : ranks) {}

  /// Of `bytes` in all.
  double getPassed(double bytes) const { return bytes * steps / parts; }
};
} // namespace

/// An exchange: messages to each peer, of which NCCL has a warp send so many at
/// a time (2.30: NCCL_MAX_DEV_WORK_P2P_PER_BATCH), by its protocol Simple. What
/// goes over links and what goes over the network go beside each other; unlike
/// in a ring, all that is for another node leaves by the rank's own adapter.
double CollectiveModel::exchange(double bytes, const GroupShape &shape) const {
  constexpr double kTogether = 8;
  const NetworkModel &network = cluster.network;
  double part = bytes / double(shape.ranks);
  double near = double(shape.perNode) - 1;
  double far = double(shape.ranks - shape.perNode);
  double link = network.link * network.gather;
  double adapter = network.network * network.gather;
  if (!network.isNccl)
    return network.launch + (near + far) * network.latency +
           part * (near / link + (far > 0 ? far / adapter : 0));
  const Protocol &simple = kProtocols[2];
  double microseconds = simple.base +
                        std::ceil(near / kTogether) * simple.intra +
                        std::ceil(far / kTogether) * simple.inter;
  if (far > 0)
    adapter *= reachedOverNodes(part);
  double moved =
      std::max(part * near / link, far > 0 ? part * far / adapter : 0);
  // Its own part is copied.
  if (shape.nodes == 1)
    moved += part / (network.link * kOwnGather);
  return network.launch + microseconds * 1e-6 + moved;
}

double CollectiveModel::ring(CollectiveKind kind, double bytes,
                             const GroupShape &shape) const {
  const NetworkModel &network = cluster.network;
  bool reduces = isReduction(kind);
  double rounds = kind == CollectiveKind::all_reduce ? 2 : 1;
  Ring ring(kind, double(shape.ranks));
  double between = shape.nodes > 1
                       ? std::min(rounds * double(shape.nodes - 1), ring.steps)
                       : 0;
  double bandwidth = network.link;
  if (shape.nodes > 1)
    bandwidth =
        shape.perNode == 1
            ? network.network
            : std::min(bandwidth, double(shape.perNode) * network.network);
  bandwidth *= reduces ? network.reduce : network.gather;
  if (!network.isNccl)
    return network.launch + ring.steps * network.latency +
           ring.getPassed(bytes) / bandwidth;

  if (shape.nodes > 1)
    bandwidth *= reachedOverNodes(bytes / ring.parts);
  double best = kUnlimited;
  for (const Protocol &protocol : kProtocols) {
    double most = shape.nodes == 1   ? protocol.most
                  : shape.nodes == 2 ? protocol.mostOnTwo
                                     : protocol.mostOnMore;
    double bus = std::min(bandwidth * protocol.share, most * 1e9);
    double microseconds = protocol.base +
                          (ring.steps - between) * protocol.intra +
                          between * protocol.inter;
    // All-reduces over nodes, on Ampere and later.
    if (kind == CollectiveKind::all_reduce && shape.nodes > 1 &&
        protocol.share == 1)
      microseconds *= 1.4;
    best = std::min(best, microseconds * 1e-6 + ring.getPassed(bytes) / bus);
  }
  if (shape.nodes == 1 && getFacts(kind).whole != Whole::neither)
    best += bytes / ring.parts /
            (network.link * (reduces ? kOwnReduce : kOwnGather));
  return network.launch + best;
}

const MeasuredCollective *
CollectiveModel::findMeasured(CollectiveKind kind,
                              const GroupShape &shape) const {
  for (const MeasuredCollective &each : cluster.network.measured)
    if (each.kind == kind && each.nodes == shape.nodes &&
        each.ranks == shape.ranks)
      return &each;
  return nullptr;
}

TransferCost CollectiveModel::collective(CollectiveKind kind, double bytes,
                                         const plan::GroupT &group,
                                         size_t pieces) const {
  TransferCost cost;
  GroupShape shape = getShape(group, cluster.ranksPerNode);
  if (shape.ranks < 2)
    return cost;
  const NetworkModel &network = cluster.network;
  const MeasuredCollective *measured = findMeasured(kind, shape);
  if (measured) {
    cost.seconds = measured->seconds.at(bytes);
    cost.start = measured->start.at(bytes);
    cost.finish = measured->finish.at(bytes);
    cost.beside = measured->beside.at(bytes);
    cost.lost = measured->lost.at(bytes);
    double further = measured->tensor * double(std::max<size_t>(pieces, 1) - 1);
    (measured->start.empty() ? cost.finish : cost.start) += further;
  } else {
    cost.seconds = kind == CollectiveKind::all_to_all
                       ? exchange(bytes, shape)
                       : ring(kind, bytes, shape);
  }
  if (cost.seconds <= 0)
    return cost;
  Ring ring(kind, double(shape.ranks));
  double passed = ring.getPassed(bytes) / cost.seconds; // bytes a second
  double adapters = double(shape.perNode);
  if (kind == CollectiveKind::all_to_all && shape.nodes > 1)
    adapters = 1;
  if (shape.perNode > 1)
    cost.link = std::min(1.0, passed / network.link);
  if (shape.nodes > 1)
    cost.network = std::min(1.0, passed / (adapters * network.network));
  cost.memory = std::min(1.0, network.traffic * bytes / cost.seconds /
                                  cluster.device.bandwidth);
  cost.processor = measured && measured->processor > 0 ? measured->processor
                                                       : network.processor;
  return cost;
}

TransferCost CollectiveModel::copy(bool toHost, double bytes,
                                   size_t count) const {
  const HostModel &host = cluster.host;
  TransferCost cost;
  cost.seconds = host.copy * double(count) +
                 bytes / (toHost ? host.download : host.upload);
  if (cost.seconds > 0)
    cost.memory =
        std::min(1.0, bytes / cost.seconds / cluster.device.bandwidth);
  return cost;
}
