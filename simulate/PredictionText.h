//===- PredictionText.h - A prediction for people and tools -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_PREDICTIONTEXT_H
#define FSDP_SIMULATE_PREDICTIONTEXT_H

#include "simulate/Simulator.h"

#include <string>

namespace fsdp {

/// Tables for a terminal: the step, its kernels, memory, and each transfer.
std::string printPrediction(const plan::PlanT &plan,
                            const Prediction &prediction);

/// The same as JSON; docs/Simulate.md says what stands where.
std::string printPredictionJson(const plan::PlanT &plan,
                                const Prediction &prediction);

/// The step as Chrome's trace event format, as `fsdp-run --profile` writes a
/// measured one (docs/Profile.md).
std::string printPredictionTrace(const plan::PlanT &plan,
                                 const Prediction &prediction);

/// The step as one page of HTML that needs nothing beside it.
std::string printPredictionPage(const plan::PlanT &plan,
                                const Prediction &prediction);

} // namespace fsdp

#endif // FSDP_SIMULATE_PREDICTIONTEXT_H
