//===- Cluster.h - The hardware that a step is predicted for ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a cost model knows of a cluster: a file of simulate/clusters, or one
// that a person wrote or `fsdp-run --calibrate` measured. Rates are what is
// reached, not what is printed on a box, unless a key says so. Seconds, bytes,
// bytes a second and floating-point operations a second (a multiply-add is
// two).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SIMULATE_CLUSTER_H
#define FSDP_SIMULATE_CLUSTER_H

#include "plan/Traffic.h"
#include "plan/plan_generated.h"
#include "simulate/Curve.h"
#include "simulate/MatmulTable.h"
#include "simulate/MeasuredTimes.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// What one multiprocessor, or core, computes of a product at a time.
struct MatmulTile {
  double rows = 128, columns = 128;
  double efficiency = 1; ///< of the best tile's rate
};

struct MatmulModel {
  std::map<plan::DType, double> rates; ///< printed on the box
  double efficiency = 1;               ///< of a rate, of whole waves
  double units = 1;                    ///< that work on tiles at once
  double ramp = 0; ///< columns of the first operand that a tile's begin costs
  double seconds = 0; ///< of a call, beside
  std::vector<MatmulTile> tiles{{}};
  bool splits = false; ///< whether one tile's sum may be several units'
  std::vector<MatmulTable> measured; ///< go before all of this
};

struct DeviceModel {
  std::string name;
  int capability = 0;   ///< 10 * major + minor of a GPU; 0: not known
  bool isHost = false;  ///< kernels run on the processor that issues them
  double memory = 0;    ///< bytes that a program can have
  double reserved = 0;  ///< of them, context and libraries
  double bandwidth = 1; ///< of memory
  double cache = 0;     ///< bytes; kernels on less are as fast as it
  double cacheBandwidth = 1;
  double vectorRate = 1;  ///< of kernels that are no products
  double kernel = 0;      ///< seconds that any kernel takes
  double issue = 0;       ///< seconds of the host for an instruction
  double sustained = 1;   ///< share of the rates that power leaves over a step
  double elementwise = 1; ///< bytes that elementwise kernels, reductions and
                          ///< copies move, over those that they name: less
                          ///< where chains are fused
  double attentionForward = 1, attentionBackward = 1; ///< of a product's rate
  double convolution = 1;                             ///< of a product's rate
  double cores = 0; ///< of a node, if it is the host: all ranks share them
  MatmulModel matmul;
  /// Seconds that were measured, over the bytes of a kernel, or the operations
  /// of attention and convolutions (Work.h). By aten's name, or, for those that
  /// have none of their own, by the name of the kind.
  std::map<std::string, Curve, std::less<>> operators;
};

/// Between a rank's memories, and the memory of the host.
struct HostModel {
  double upload = 1, download = 1; ///< bytes a second of each rank
  double copy = 0;                 ///< seconds of a copy, beside
  double bandwidth = 1;            ///< of memory, for each rank
};

/// What was measured of collectives over `ranks` ranks of `nodes` nodes, over
/// the bytes of the whole tensors.
struct MeasuredCollective {
  CollectiveKind kind = CollectiveKind::all_gather;
  int64_t nodes = 1, ranks = 0;
  Curve seconds; ///< while the rank's thread waits
  /// Of the thread that computes: in the start, and in the wait once all has
  /// come. Ranks that are threads do all of it there.
  Curve start, finish;
  /// `seconds` while that thread computes, and what it loses meanwhile; may be
  /// empty.
  Curve beside, lost;
  double tensor = 0;    ///< seconds of the thread for each further message
  double processor = 0; ///< share of a core that `seconds` take; 0: the model's
};

struct NetworkModel {
  bool isNccl = false; ///< by NCCL's rings and protocols; else by latency alone
  double link = 1;     ///< bytes a second that a rank passes on within a node
  double network = 1;  ///< and to another node, each rank its share
  double latency = 0;  ///< seconds of each step of a ring, unless NCCL's
  double launch = 0;   ///< seconds of a collective, beside
  double gather = 1, reduce = 1; ///< share of the rates that is reached
  double processor = 0;    ///< share of the processor that a collective takes
  double traffic = 0;      ///< bytes of memory for each byte that it brings
  double communicator = 0; ///< bytes of the device that each of a rank's
                           ///< communicators takes for its buffers
  bool staging =
      false; ///< messages lie in memory of the rank while they travel
  std::vector<MeasuredCollective> measured;
  /// Where a node has so many ranks, or more, ascending: what a wait takes
  /// longer because they do not come at once, over the seconds since the wait
  /// before.
  std::vector<std::pair<int64_t, Curve>> skew;
};

struct Cluster {
  std::string name;
  int64_t ranksPerNode = 1;
  DeviceModel device;
  HostModel host;
  NetworkModel network;
  /// What the device is to each rank where a node has so many of them, or more:
  /// ascending. Ranks of a host share caches and memory, and have fewer threads
  /// each.
  std::vector<std::pair<int64_t, DeviceModel>> crowded;
  /// Goes before all of this, where it knows a kernel or transfer; may be null.
  std::shared_ptr<const MeasuredTimes> profile;

  /// With the device as each of `ranks` ranks of a node has it.
  Cluster withRanks(int64_t ranks) const;
  /// `network.skew` of so many ranks of a node; may be empty.
  Curve skewOf(int64_t ranks) const;
  /// `text` is YAML; errors name `file`. Throws fsdp::Error
  /// (ConfigNotReadable, ConfigUnknownKey, ConfigMissingKey, ConfigWrongType,
  /// ConfigBadValue).
  static Cluster parse(const std::string &text, const std::string &file);
  /// A name of `names`, or the path of a file; `profile` is the path of a
  /// trace, or empty. Throws as `parse`, FileNotReadable, ProfileInvalid (also
  /// of a profile of hosts for a cluster of GPUs, or the reverse), and as
  /// MeasuredTimes::read.
  static Cluster load(const std::string &nameOrPath,
                      const std::string &profile = "");
  /// Those that are built in.
  static std::vector<std::string_view> names();
};

} // namespace fsdp

#endif // FSDP_SIMULATE_CLUSTER_H
