//===- FirstValues.h - Where a program's states start -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPILE_FIRSTVALUES_H
#define FSDP_TOOLS_FSDPOPT_COMPILE_FIRSTVALUES_H

#include "tools/fsdp-opt/config/Config.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace fsdp {

/// Gives each state of the captured program its first value: the config's init
/// rule for it, else a tensor of the weights files, else the data of the model
/// file. Buffers keep their data where they have it, but for persistent ones
/// that the files hold. Without `weights` (--weights), states that have none of
/// these are left to the run, by name.
///
/// Returns notes for the user. Throws fsdp::Error: WeightsMissing,
/// WeightsMismatch, ConfigBadValue, and what WeightFiles throws.
std::vector<std::string>
resolveFirstValues(mlir::ModuleOp module, const Config &config,
                   const std::vector<std::string> &weights);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPILE_FIRSTVALUES_H
