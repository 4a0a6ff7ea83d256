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

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// Seconds over a size, from measurements: straight lines between them, the
/// first one's time below them, the last line's slope above.
class Curve {
public:
  Curve() = default;
  /// Ascending sizes, at least one.
  explicit Curve(std::vector<std::pair<double, double>> points)
      : points(std::move(points)) {}

  bool empty() const { return points.empty(); }
  double at(double size) const;

private:
  std::vector<std::pair<double, double>> points;
};

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
};

struct DeviceModel {
  std::string name;
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
  CollectiveKind kind;
  int64_t nodes, ranks;
  Curve seconds;
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
};

struct Cluster {
  std::string name;
  int64_t ranksPerNode = 1;
  DeviceModel device;
  HostModel host;
  NetworkModel network;

  /// `text` is YAML; errors name `file`. Throws fsdp::Error
  /// (ConfigNotReadable, ConfigUnknownKey, ConfigMissingKey, ConfigWrongType,
  /// ConfigBadValue).
  static Cluster parse(const std::string &text, const std::string &file);
  /// A name of `names`, or the path of a file. Throws as `parse`, and
  /// FileNotReadable.
  static Cluster load(const std::string &nameOrPath);
  /// Those that are built in.
  static std::vector<std::string_view> names();
};

} // namespace fsdp

#endif // FSDP_SIMULATE_CLUSTER_H
