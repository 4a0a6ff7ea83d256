//===- GradientChains.h - The reductions of gradients -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_GRADIENTCHAINS_H
#define FSDP_PASSES_ANALYSIS_GRADIENTCHAINS_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// The logical reductions of each gradient of the program, in order: each reads
/// what the one before it makes.
llvm::SmallVector<llvm::SmallVector<ReductionOpInterface, 2>>
getGradientChains(mlir::func::FuncOp func);

/// `op` as a logical reduction of a gradient; null if it is none.
ReductionOpInterface asGradientReduction(mlir::Operation *op);

/// What a reduction of `operand` to elements of `result`'s type sums: where
/// these are wider, `operand` was cast for its way alone (`fsdp-narrow-wires`),
/// to eight bits behind a scale, and it is what was cast. Null if there is no
/// such cast.
mlir::Value getReduced(mlir::Value operand, mlir::Type result);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_GRADIENTCHAINS_H
