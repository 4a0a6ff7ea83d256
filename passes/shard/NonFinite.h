//===- NonFinite.h - Updates that a NaN leaves out --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_NONFINITE_H
#define FSDP_PASSES_SHARD_NONFINITE_H

#include "mlir/IR/Builders.h"

namespace fsdp {

/// 1 if `loss` or `norm` is a NaN or infinite, else 0: what the fused
/// optimizers call found_inf. All are scalars of f32, the same on all ranks.
mlir::Value buildFoundInf(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value loss, mlir::Value norm);

/// The number of updates, of which this one counts unless `foundInf` is 1;
/// absent: in any case.
mlir::Value countUpdate(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value updates, mlir::Value foundInf);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_NONFINITE_H
