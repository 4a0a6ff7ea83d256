//===- Compare.h - Configs side by side -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPARE_COMPARE_H
#define FSDP_TOOLS_FSDPOPT_COMPARE_COMPARE_H

#include "tools/fsdp-opt/input/CommandLine.h"

#include "mlir/IR/MLIRContext.h"

#include <string>

namespace fsdp {

/// --compare: the model compiled with each config of `line`, as a table of what
/// is predicted of each. Throws fsdp::Error as compiling and predicting do; its
/// message names the config.
std::string compareConfigs(mlir::MLIRContext &context, const CommandLine &line);

/// --simulate: the config of `line` for each number of ranks, and the step's
/// time over the bandwidth between nodes. Numbers that the mesh's replicas do
/// not divide are left out. Throws as compareConfigs.
std::string simulateWorlds(mlir::MLIRContext &context, const CommandLine &line);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPARE_COMPARE_H
