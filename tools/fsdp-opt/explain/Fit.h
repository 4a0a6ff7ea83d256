//===- Fit.h - Whether a step fits, and what makes it fit -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_EXPLAIN_FIT_H
#define FSDP_TOOLS_FSDPOPT_EXPLAIN_FIT_H

#include "simulate/Cluster.h"
#include "tools/fsdp-opt/config/Config.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace fsdp {

/// A table of mechanisms that give up time for memory: what a rank holds with
/// each, whether that fits, the predicted step, and its price over the step
/// without any. Each row is a compile and its prediction; what the config says
/// itself stays, and has no row. At most some thirty compiles, of which
/// `schedule: auto` takes most. Throws fsdp::Error as `predict` where the
/// config itself cannot be compiled or predicted.
std::string printFit(mlir::ModuleOp module, const Config &config,
                     const Cluster &cluster);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_EXPLAIN_FIT_H
