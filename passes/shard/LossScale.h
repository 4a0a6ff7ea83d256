//===- LossScale.h - What keeps gradients in f16 from vanishing -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rule of torch.amp.GradScaler (aten/src/ATen/native/cuda/AmpKernels.cu,
// amp_update_scale), in ops that every device has.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_SHARD_LOSS_SCALE_H
#define FSDP_PASSES_SHARD_LOSS_SCALE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <utility>

namespace fsdp {

struct LossScaling {
  double growth = 2, backoff = 0.5; ///< factors, above and below 1
  int64_t interval = 0;             ///< updates until it grows; 0: it stays
};

/// As the module says it; none where its loss is not scaled.
mlir::FailureOr<LossScaling> getLossScaling(mlir::ModuleOp module,
                                            bool skipsNonFinite);

/// The norm of gradients that were multiplied by `scale`, a 0-d f32.
mlir::Value unscaleNorm(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value norm, mlir::Value scale);

/// What divides gradients by `scale` as well as by `divisor`, which may be
/// null.
mlir::Value joinScale(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value divisor, mlir::Value scale);

/// The next scale and count of updates, both 0-d f32. `foundInf` is 1 where
/// this step's update is left out, else 0.
std::pair<mlir::Value, mlir::Value>
buildScaleUpdate(mlir::OpBuilder &builder, mlir::Location loc,
                 mlir::Value scale, mlir::Value count, mlir::Value foundInf,
                 const LossScaling &scaling);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_LOSS_SCALE_H
