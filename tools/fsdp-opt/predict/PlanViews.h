//===- PlanViews.h - A predicted step, as it was asked for ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_PREDICT_PLANVIEWS_H
#define FSDP_TOOLS_FSDPOPT_PREDICT_PLANVIEWS_H

#include "plan/plan_generated.h"
#include "tools/fsdp-opt/input/CommandLine.h"

#include <string>
#include <vector>

namespace fsdp {

struct PlanView {
  std::string path; ///< "-": the terminal
  std::string text;
};

/// Better refused before a model is compiled: throws fsdp::Error, BadUsage if
/// no cluster is named, and what Cluster::load throws.
void checkCluster(const std::string &cluster);

/// What each --print-plan of `line` gets. `plan` was verified; `cluster` is a
/// name or a file. Throws what Cluster::load and simulate throw.
std::vector<PlanView> makePlanViews(const plan::PlanT &plan,
                                    const CommandLine &line,
                                    const std::string &cluster);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_PREDICT_PLANVIEWS_H
