//===- GradientChains.h - The reductions of gradients -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_GRADIENTCHAINS_H
#define FSDP_PASSES_ANALYSIS_GRADIENTCHAINS_H

#include "passes/analysis/Programs.h"

namespace fsdp {

/// The parameter whose gradient a logical reduction combines, or null.
mlir::FlatSymbolRefAttr getGradientOf(mlir::Operation *op);

/// The logical reductions of each gradient of the program, in order: each reads
/// what the one before it makes.
llvm::SmallVector<llvm::SmallVector<mlir::Operation *, 2>>
getGradientChains(mlir::func::FuncOp func);

/// By how much a logical reduction scales what all ranks bring alike.
double getScale(mlir::Operation *reduction);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_GRADIENTCHAINS_H
