//===- GradientChains.h - The reductions of gradients -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_GRADIENTCHAINS_H
#define FSDP_PASSES_ANALYSIS_GRADIENTCHAINS_H

#include "passes/analysis/Programs.h"

namespace fsdp {

/// The logical reductions of each gradient of the program, in order: each reads
/// what the one before it makes.
llvm::SmallVector<llvm::SmallVector<ReductionOpInterface, 2>>
getGradientChains(mlir::func::FuncOp func);

/// `op` as a logical reduction of a gradient; null if it is none.
ReductionOpInterface asGradientReduction(mlir::Operation *op);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_GRADIENTCHAINS_H
