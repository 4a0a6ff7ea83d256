//===- StepModel.h - A step whose decisions can be changed ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Made from one compiled plan, in which each bucket is gathered again for
// backward and nothing is recomputed or offloaded. What other decisions would
// make of it is worked out from that plan's instructions and lifetimes, in
// milliseconds instead of a compile: kernels are repeated, transfers moved or
// left out, tensors live longer or shorter. What is chosen is compiled in the
// end, and only what that gives counts.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DECIDE_STEPMODEL_H
#define FSDP_DECIDE_STEPMODEL_H

#include "simulate/Cluster.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// What backward repeats of a block's forward.
enum class Recomputed : uint8_t {
  none,
  selective, ///< all but products and attention
  full
};

struct Decisions {
  // By bucket, in the order of StepModel::buckets.
  std::vector<bool> kept;         ///< gathered from forward to backward
  std::vector<uint32_t> prefetch; ///< buckets that it is gathered ahead
  // By block, in the order of StepModel::blocks.
  std::vector<Recomputed> recomputed; ///< instead of keeping activations
  std::vector<bool> offloaded;        ///< activations wait on the host

  bool operator==(const Decisions &) const = default;
};

struct Outcome {
  double seconds = 0, exposed = 0; ///< of a step
  uint64_t peak = 0;               ///< bytes of the device's region
};

/// Bytes in use while each instruction of the plan's first program runs, and
/// the most while kernels run again in front of it; 0: none do.
struct MemoryProfile {
  std::vector<uint64_t> at, again;
};

/// Parameters that move together.
struct BucketFacts {
  std::string name;
  bool isRegathered = false;
  uint64_t gathered = 0; ///< bytes
  uint32_t prefetch = 0; ///< buckets that the plan gathers it ahead
  double transfer = 0;   ///< seconds of a gather, alone

  /// Buckets that differ in their names alone have equal ones.
  bool isLike(const BucketFacts &other) const;
};

/// A module whose activations are decided about.
struct BlockFacts {
  std::string name;
  double forward = 0;    ///< seconds of its kernels; 0: it is no block
  uint64_t saved = 0;    ///< bytes of activations that backward reads
  uint64_t dropped = 0;  ///< bytes of them that full recomputation spares
  uint64_t selected = 0; ///< and selective one

  bool isLike(const BlockFacts &other) const;
};

class StepProgram;

class StepModel {
public:
  /// `plan` was verified and trains; both outlive it. `blocks` are paths of
  /// modules; by default those that buckets are called after.
  StepModel(const plan::PlanT &plan, const Cluster &cluster,
            std::vector<std::string> blocks = {});
  ~StepModel();

  const std::vector<BucketFacts> &buckets() const { return bucketFacts; }
  const std::vector<BlockFacts> &blocks() const { return blockFacts; }
  /// Those of the plan itself.
  Decisions none() const;
  Outcome evaluate(const Decisions &decisions) const;
  MemoryProfile profile(const Decisions &decisions) const;

private:
  std::vector<std::unique_ptr<StepProgram>> programs;
  std::vector<BucketFacts> bucketFacts;
  std::vector<BlockFacts> blockFacts;
  int64_t base = 0; ///< bytes of the plan's peak beside transient tensors
};

} // namespace fsdp

#endif // FSDP_DECIDE_STEPMODEL_H
