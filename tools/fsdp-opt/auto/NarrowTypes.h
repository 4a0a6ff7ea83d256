//===- NarrowTypes.h - Which types a step computes and sends in -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_AUTO_NARROWTYPES_H
#define FSDP_TOOLS_FSDPOPT_AUTO_NARROWTYPES_H

#include "simulate/Cluster.h"
#include "tools/fsdp-opt/config/Config.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace fsdp {

/// What was decided, as keys that a file could say.
struct DecidedTypes {
  Config config;
  std::vector<std::string> reasons; ///< in words, a line each
};

/// By `precision` of the config, for a captured program that trains, which
/// stays as it is: narrow types that make the step faster, by prediction.
/// Throws fsdp::Error as `predict`, of the config as it is.
DecidedTypes decideTypes(mlir::ModuleOp module, const Config &config,
                         const Cluster &cluster);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_AUTO_NARROWTYPES_H
