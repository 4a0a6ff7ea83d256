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

/// By bucket, in the order of StepModel::buckets.
struct Decisions {
  std::vector<bool> kept;       ///< gathered from forward to backward
  std::vector<bool> recomputed; ///< activations are computed again
  std::vector<bool> offloaded;  ///< activations wait on the host
  bool selective = false;       ///< recomputation keeps products and attention
  uint32_t prefetch = 1;        ///< buckets that are gathered ahead

  bool operator==(const Decisions &) const = default;
};

struct Outcome {
  double seconds = 0, exposed = 0; ///< of a step
  uint64_t peak = 0;               ///< bytes of the device's region
};

/// What is known of a bucket and the module that it is called after.
struct BucketFacts {
  std::string name;
  bool isBlock = false; ///< kernels of forward stand in it
  bool isRegathered = false;
  uint64_t gathered = 0; ///< bytes
  uint64_t saved = 0;    ///< bytes of activations that backward reads
  uint64_t dropped = 0;  ///< bytes of them that recomputation spares
  double forward = 0;    ///< seconds of its kernels
  /// Buckets that differ in their names alone have equal ones.
  bool isLike(const BucketFacts &other) const;
};

class StepProgram;

class StepModel {
public:
  /// `plan` was verified and trains; both outlive it.
  StepModel(const plan::PlanT &plan, const Cluster &cluster);
  ~StepModel();

  const std::vector<BucketFacts> &buckets() const;
  /// Those of the plan itself.
  Decisions none() const;
  Outcome evaluate(const Decisions &decisions) const;

private:
  std::vector<std::unique_ptr<StepProgram>> programs;
  std::vector<BucketFacts> facts;
  const plan::PlanT &plan;
  int64_t base = 0; ///< bytes of the plan's peak beside transient tensors
};

} // namespace fsdp

#endif // FSDP_DECIDE_STEPMODEL_H
