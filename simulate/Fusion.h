//===- Fusion.h - A step with and without own kernels -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels of our own (fsdp_config.kernels) make of a step: times, and the
// bytes that all move which compute little, beside the least there can be.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SIMULATE_FUSION_H
#define FSDP_SIMULATE_FUSION_H

#include "simulate/Simulator.h"

#include <array>
#include <string>
#include <vector>

namespace fsdp {

/// Of a step's work on the device, each program as often as it runs in one.
struct MovedBytes {
  double seconds = 0;                      ///< the step
  std::array<double, kWorkKinds> byKind{}; ///< seconds in kernels
  /// Read and written by operators that compute little for each byte:
  /// elementwise ones, reductions, lookups, draws, copies, updates.
  double bytes = 0;
  uint64_t calls = 0;   ///< of these
  uint64_t planned = 0; ///< bytes of the device's region
};

struct OwnKernel {
  std::string name; ///< the operators that it stands for
  uint64_t calls = 0;
  double seconds = 0, bytes = 0; ///< of all calls
};

struct Fusion {
  MovedBytes before, after;
  /// What `before` would move if these operators, as many as follow each other,
  /// were one: what others made, or was there, is read once, and what others
  /// read, or stays, written once.
  double leastBytes = 0;
  std::vector<OwnKernel> kernels; ///< by name, the longest first
};

/// The same program without and with kernels, and what is predicted of each.
Fusion compareFusion(const plan::PlanT &before, const Prediction &predicted,
                     const plan::PlanT &after, const Prediction &fused);

} // namespace fsdp

#endif // FSDP_SIMULATE_FUSION_H
