//===- GradientNorm.h - The global norm of sharded gradients ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_GRADIENT_NORM_H
#define FSDP_PASSES_SHARD_GRADIENT_NORM_H

#include "mlir/IR/Builders.h"

namespace fsdp {

/// Sum of the squares of all elements of this rank's gradients, as one f32.
/// Half-precision gradients are summed in f32, f64 ones in f64. `gradients` is
/// not empty; all are of floating point.
mlir::Value buildSumOfSquares(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::ValueRange gradients);

/// The norm over `ranks` ranks, from the mean of their sums of squares.
mlir::Value buildNorm(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value meanOfSums, int64_t ranks);

/// What gradients are divided by to clip their norm to `maxNorm`: at least 1.
mlir::Value buildClipDivisor(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value norm, double maxNorm);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_GRADIENT_NORM_H
