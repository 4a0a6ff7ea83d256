//===- PlanViews.h - A predicted step, as it was asked for ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_PREDICT_PLANVIEWS_H
#define FSDP_TOOLS_FSDPOPT_PREDICT_PLANVIEWS_H

#include "plan/plan_generated.h"
#include "simulate/Fusion.h"
#include "simulate/Simulator.h"
#include "tools/fsdp-opt/input/CommandLine.h"

#include <string>
#include <vector>

namespace fsdp {

struct PlanView {
  std::string path; ///< "-": the terminal
  std::string text;
};

/// Whether a --print-plan of `line` shows what own kernels make of the step.
bool showsFusion(const CommandLine &line);

/// What each --print-plan of `line` gets of the plan's prediction, beside the
/// profile of --profile and what own kernels make of the step, which may be
/// null. Throws fsdp::Error as Profile::read.
std::vector<PlanView> makePlanViews(const plan::PlanT &plan,
                                    const Prediction &prediction,
                                    const CommandLine &line,
                                    const Fusion *fusion = nullptr);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_PREDICT_PLANVIEWS_H
