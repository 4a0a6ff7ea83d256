//===- Budget.h - What a rank may hold --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_AUTO_BUDGET_H
#define FSDP_TOOLS_FSDPOPT_AUTO_BUDGET_H

#include "simulate/Simulator.h"
#include "tools/fsdp-opt/config/Config.h"

#include <string>

namespace fsdp {

/// Bytes of the device that a rank may hold: `memory_budget`, or all of it.
uint64_t getBudget(const Config &config, const Prediction &prediction);

/// What fills a rank's memory where it holds most, in words.
std::string describeHeld(const plan::PlanT &plan, const Prediction &prediction);

/// Throws fsdp::Error (BudgetTooSmall) with what the rank holds where it holds
/// most, unless `prediction` is within the budget of the config.
void checkBudget(const plan::PlanT &plan, const Prediction &prediction,
                 const Config &config);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_AUTO_BUDGET_H
