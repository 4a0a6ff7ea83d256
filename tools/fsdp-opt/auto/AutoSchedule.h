//===- AutoSchedule.h - The compiler decides --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `schedule: auto`. One compile shows what a step is made of; a search over
// that (decide/) proposes what to keep, compute again, move to the host and
// gather ahead; what it proposes is written into a config as a person could
// have written it, compiled and predicted, and replaces the default only if
// that is predicted to be faster within the budget, or if the default does not
// fit.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_AUTO_AUTOSCHEDULE_H
#define FSDP_TOOLS_FSDPOPT_AUTO_AUTOSCHEDULE_H

#include "plan/Reader.h"
#include "simulate/Simulator.h"
#include "tools/fsdp-opt/config/Config.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace fsdp {

/// Bytes that a rank may hold of the device: the config's budget, or all that
/// there is.
uint64_t getBudget(const Config &config, const Prediction &prediction);

/// Throws fsdp::Error (BudgetTooSmall) with what the rank holds where it holds
/// most, unless `prediction` is within the budget of the config.
void checkBudget(const plan::PlanT &plan, const Prediction &prediction,
                 const Config &config);

/// What was decided, in words, a line each.
struct AutoSchedule {
  Config config;
  std::vector<std::string> reasons;
};

/// For a captured program, which stays as it is. Throws fsdp::Error:
/// StageRefused, and BudgetTooSmall with the smallest budget that would do.
AutoSchedule chooseSchedule(mlir::ModuleOp module, const Config &config,
                            const Cluster &cluster);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_AUTO_AUTOSCHEDULE_H
