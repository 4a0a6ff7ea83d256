//===- Comparison.h - A prediction beside a measurement ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_COMPARISON_H
#define FSDP_SIMULATE_COMPARISON_H

#include "simulate/Profile.h"
#include "simulate/Simulator.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// Seconds of the same thing, predicted and measured.
struct SecondsPair {
  double predicted = 0, measured = 0;
  uint64_t count = 0; ///< kernels, or transfers, of a step

  /// Predicted over measured; 0 where one of them is nothing.
  double ratio() const {
    return predicted > 0 && measured > 0 ? predicted / measured : 0;
  }
};

/// Of a step: each program counts as often as it runs in one. Measured are sums
/// of the medians of instructions, but for the step itself.
struct Comparison {
  SecondsPair step, compute, exposed;
  /// Measured alone: the rank's thread starts transfers, and brings in rows.
  double starting = 0, inputs = 0;
  /// By WorkKind; under `none` is what the model takes to cost nothing.
  std::array<SecondsPair, kWorkKinds> kinds{};
  /// By name ("aten::mm"), the longest measured first.
  std::vector<std::pair<std::string, SecondsPair>> operators;
};

/// From the start to the end of the wait, as a profile has it.
double getFlight(const PredictedTransfer &transfer);

/// `profile` is one of `plan`, which `prediction` is of.
Comparison compare(const plan::PlanT &plan, const Prediction &prediction,
                   const Profile &profile);

} // namespace fsdp

#endif // FSDP_SIMULATE_COMPARISON_H
