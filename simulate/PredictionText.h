//===- PredictionText.h - A prediction for people and tools -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_PREDICTIONTEXT_H
#define FSDP_SIMULATE_PREDICTIONTEXT_H

#include "simulate/Fusion.h"
#include "simulate/Profile.h"
#include "simulate/Simulator.h"

#include <string>

namespace fsdp {

/// Tables for a terminal: the step, its kernels, memory, and each transfer.
/// Here and below `measured` is a profile of the plan, `fusion` what its own
/// kernels make of the step; both stand beside the prediction, and may be null.
std::string printPrediction(const plan::PlanT &plan,
                            const Prediction &prediction,
                            const Profile *measured = nullptr,
                            const Fusion *fusion = nullptr);

/// The same as JSON; docs/Simulate.md says what stands where.
std::string printPredictionJson(const plan::PlanT &plan,
                                const Prediction &prediction,
                                const Profile *measured = nullptr,
                                const Fusion *fusion = nullptr);

/// The step as Chrome's trace event format, as `fsdp-run --profile` writes a
/// measured one (docs/Profile.md).
std::string printPredictionTrace(const plan::PlanT &plan,
                                 const Prediction &prediction,
                                 const Profile *measured = nullptr);

/// The step as one page of HTML that needs nothing beside it.
std::string printPredictionPage(const plan::PlanT &plan,
                                const Prediction &prediction,
                                const Profile *measured = nullptr,
                                const Fusion *fusion = nullptr);

} // namespace fsdp

#endif // FSDP_SIMULATE_PREDICTIONTEXT_H
