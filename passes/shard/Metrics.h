//===- Metrics.h - Numbers that a step reports ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_METRICS_H
#define FSDP_PASSES_SHARD_METRICS_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/Builders.h"

namespace fsdp {

/// A floating-point scalar in f32, the type that metrics are summed, averaged
/// and reported in. A cast stands where the number is computed, since it is
/// part of forward.
mlir::Value widenMetric(mlir::OpBuilder &builder, mlir::Value number);

/// The mean of a number over a step's grains, of which each rank has the sum of
/// its own, in the order of their tree. One rank alone reduces, too.
mlir::Value averageGrains(mlir::OpBuilder &builder, mlir::Value number,
                          MeshAttr mesh, int64_t grains);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_METRICS_H
