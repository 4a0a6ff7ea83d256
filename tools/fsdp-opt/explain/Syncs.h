//===- Syncs.h - What keeps a step from one launch --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_EXPLAIN_SYNCS_H
#define FSDP_TOOLS_FSDPOPT_EXPLAIN_SYNCS_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace fsdp {

/// The operators of a program for a GPU within which the host waits for it, so
/// that no CUDA graph holds the step: why, and where in the model, those alike
/// in all layers in one line. Empty if there are none.
std::string listSyncs(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_EXPLAIN_SYNCS_H
