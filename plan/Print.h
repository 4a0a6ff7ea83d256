//===- Print.h - A plan as text ---------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_PRINT_H
#define FSDP_PLAN_PRINT_H

#include "plan/Worlds.h"

#include <string>

namespace fsdp {

/// The whole artifact for people: header, mesh, states and their addresses,
/// memory, and one line for each instruction. `plan` has been verified.
std::string printPlan(const plan::PlanT &plan);

/// As above, under the artifact's version and fingerprint.
std::string printArtifact(const PlanFile &file);

/// As above, of each plan that `plans` has, which are taken from it; of several
/// under what they have in common. Throws as WorldPlans::take.
std::string printArtifact(WorldPlans plans);

} // namespace fsdp

#endif // FSDP_PLAN_PRINT_H
