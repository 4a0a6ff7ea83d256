//===- GpuCases.h - What is measured of a GPU -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CALIBRATE_GPUCASES_H
#define FSDP_RUNTIME_CALIBRATE_GPUCASES_H

#include "runtime/calibrate/Crew.h"
#include "runtime/device/Bench.h"

#include <functional>
#include <string>
#include <vector>

namespace fsdp {

/// What the models of simulate/ want of a GPU. `memory`, `communicator` and the
/// like are bytes, rates bytes or operations a second, all else seconds.
struct GpuMeasurements {
  BenchFacts facts;
  int ranks = 1;
  double bandwidth = 0, cache = 0, cacheBandwidth = 0;
  double kernel = 0; ///< that the smallest kernel takes
  double issue = 0;  ///< of the host, to put it there
  double attentionForward = 0, attentionBackward = 0, convolution = 0;
  double upload = 0, download = 0, copy = 0, hostBandwidth = 0;
  double link = 0, launch = 0, processor = 0; ///< 0 of one rank
  /// "rate bf16" at nothing: operations a second; "products bf16" and "products
  /// transposed bf16" at (rows, columns, depth) and "all_gather" and the like
  /// at bytes of the whole tensors: seconds.
  std::vector<Measured> tables;
};

/// Takes some minutes. `say` is told how far it is. Collective over the
/// bench's ranks, which all get the same. Throws fsdp::Error.
GpuMeasurements measureGpu(Bench &bench,
                           const std::function<void(const std::string &)> &say);

/// A cluster's file, as docs/Simulate.md says.
std::string printGpuCluster(const GpuMeasurements &measured);

} // namespace fsdp

#endif // FSDP_RUNTIME_CALIBRATE_GPUCASES_H
