//===- OptimizerKinds.h - The optimizers that are known ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_OPTIMIZER_KINDS_H
#define FSDP_PASSES_SHARD_OPTIMIZER_KINDS_H

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// What torch.optim keeps of a parameter group.
struct OptimizerSettings {
  double lr = 0;
  double beta1 = 0, beta2 = 0, eps = 0, weightDecay = 0;
  double momentum = 0;
  bool nesterov = false;

  bool operator==(const OptimizerSettings &) const = default;
};

/// Those of each group, first those that hold without one.
llvm::SmallVector<OptimizerSettings> getGroupSettings(OptimizerAttr optimizer);

/// Values of one update of parameters that share settings and element type.
struct UpdateOperands {
  llvm::SmallVector<mlir::Value> params, grads;
  /// For each state that the optimizer keeps of a parameter, one for each.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>, 2> moments;
  mlir::Value step; ///< this update's number, from 1; null if not asked for
  mlir::Value lr;
  mlir::Value gradScale; ///< divides the gradients; may be null
  mlir::Value foundInf;  ///< 1 leaves the update out; may be null
  /// Of moments that are codes, in their order, one for each.
  llvm::SmallVector<mlir::Value> scales;
  mlir::Value maxima; ///< of blocks that ranks share; may be null
  /// The seed of stochastic rounding; null: to nearest.
  mlir::IntegerAttr rounding;
};

/// How an optimizer is built.
struct OptimizerRule {
  /// Whether updates need their number.
  bool needsStep;
  /// Names of the states that it keeps of each parameter.
  llvm::SmallVector<llvm::StringRef, 2> (*getMoments)(
      const OptimizerSettings &settings);
  /// Builds the op. Its results are the new parameters, then the new moments in
  /// the order of `getMoments`.
  mlir::Operation *(*build)(mlir::OpBuilder &builder, mlir::Location loc,
                            const UpdateOperands &operands,
                            const OptimizerSettings &settings);
};

/// A new optimizer is added here.
const OptimizerRule &getOptimizerRule(OptimizerKind kind);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_OPTIMIZER_KINDS_H
