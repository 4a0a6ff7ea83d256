//===- Splits.h - What ranks of a step hold parts of ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_EXPLAIN_SPLITS_H
#define FSDP_TOOLS_FSDPOPT_EXPLAIN_SPLITS_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace fsdp {

/// The tensor-parallel plan that a compiled program has: parameters that are
/// split, those alike in all layers in one line, and how many are not. Empty if
/// one rank computes a step alone.
std::string listSplits(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_EXPLAIN_SPLITS_H
