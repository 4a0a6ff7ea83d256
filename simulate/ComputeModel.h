//===- ComputeModel.h - Seconds of kernels ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_COMPUTEMODEL_H
#define FSDP_SIMULATE_COMPUTEMODEL_H

#include "simulate/Cluster.h"
#include "simulate/Work.h"

#include <optional>

namespace fsdp {

/// What was measured; else a roofline: what is longer, its operations or its
/// bytes, at the rates that its kind and size reach.
class ComputeModel {
public:
  /// `cluster` outlives it.
  explicit ComputeModel(const Cluster &cluster) : cluster(cluster) {}

  /// Alone on the device, with all of a node's cores to itself on a host.
  double seconds(const Work &work) const;
  /// Share of the memory's bandwidth that it takes meanwhile.
  double memoryShare(const Work &work) const;

private:
  /// Of what was measured of such a kernel; empty: nothing was.
  std::optional<double> measured(const Work &work) const;
  std::optional<double> measuredProduct(const Work &work) const;
  double modelled(const Work &work) const;
  double multiply(const Work &work) const;
  double bandwidth(const Work &work) const;
  double rate(plan::DType dtype) const;

  const Cluster &cluster;
};

} // namespace fsdp

#endif // FSDP_SIMULATE_COMPUTEMODEL_H
