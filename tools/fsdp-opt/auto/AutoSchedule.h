//===- AutoSchedule.h - The compiler decides --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `schedule: auto`. One compile shows what a step is made of; a search over
// that (decide/) proposes what to keep, compute again, move to the host and
// gather ahead; what it proposes is written into a config as a person could
// have written it, compiled and predicted. The fastest of what was compiled
// within the budget is taken, the default's schedule and those of peers' rules
// among it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_AUTO_AUTOSCHEDULE_H
#define FSDP_TOOLS_FSDPOPT_AUTO_AUTOSCHEDULE_H

#include "tools/fsdp-opt/predict/Predicted.h"

#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// What was decided.
struct DecidedSchedule {
  Config config;
  /// What was compiled on the way, if that is its answer.
  std::optional<Predicted> compiled;
  std::vector<std::string> reasons; ///< in words, a line each
};

/// By `precision` and `schedule` of the config, for a captured program, which
/// stays as it is. Throws fsdp::Error: StageRefused, ConfigBadValue, and
/// BudgetTooSmall with the smallest budget that would do.
DecidedSchedule decideSchedule(mlir::ModuleOp module, const Config &config,
                               const Cluster &cluster);

/// The prediction of what is decided. Throws as `decideSchedule`.
Predicted predictDecided(mlir::ModuleOp module, const Config &config,
                         const Cluster &cluster);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_AUTO_AUTOSCHEDULE_H
