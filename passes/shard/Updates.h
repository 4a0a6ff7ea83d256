//===- Updates.h - Updates of parameters and their states -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_UPDATES_H
#define FSDP_PASSES_SHARD_UPDATES_H

#include "passes/shard/GroupSettings.h"
#include "passes/shard/KeptStates.h"
#include "passes/shard/UpdatePlaces.h"

namespace fsdp {

/// A trained parameter with its gradient and the states kept of it.
struct Trained : UpdatedParameter {
  KeptStates kept;
  StateOp average; ///< null: there is none
};

/// How all programs of a module update.
struct UpdateSettings {
  OptimizerKind kind;
  llvm::SmallVector<GroupSettings> groups; ///< first that of all without one
  StateDType stateDType;
  mlir::IntegerAttr rounding; ///< the seed; null: bf16 is rounded to nearest
  EmaAttr ema;                ///< null: nothing is averaged
};

/// The number of the parameter's group.
inline size_t getGroup(StateOp parameter) {
  return parameter.getGroup().value_or(0);
}

/// The optimizer's states, which all programs of a module share.
struct OptimizerStates {
  llvm::DenseMap<mlir::Operation *, KeptStates> kept;  ///< by parameter
  llvm::DenseMap<mlir::Operation *, StateOp> averages; ///< the same
  StateOp step; ///< null: nothing needs an update's number
  /// By group; those of the base's rate share it.
  llvm::SmallVector<StateOp> rates;
  StateOp growth; ///< null: the loss scale stays
};

/// Declares them behind the module's other states, those of `params` in order.
/// `grows`: the loss scale does.
mlir::FailureOr<OptimizerStates> declareStates(mlir::ModuleOp module,
                                               llvm::ArrayRef<StateOp> params,
                                               const UpdateSettings &settings,
                                               bool grows);

/// What all updates of a program read.
struct UpdateInputs {
  const llvm::DenseMap<mlir::Operation *, mlir::BlockArgument> &arguments;
  llvm::ArrayRef<StateOp> rates; ///< by group
  mlir::Value step;              ///< this update's number; null: none needs it
  mlir::Value divisor, foundInf; ///< null: neither divided nor left out
  GroupAttr world;
};

/// Builds an op for what can be updated together, and in front of all of them
/// what finds the scales of blocks that ranks share. Returns the new values.
llvm::SmallVector<std::pair<StateOp, mlir::Value>>
buildUpdates(mlir::OpBuilder &builder, mlir::Location loc,
             const UpdateSettings &settings, llvm::ArrayRef<Trained *> trained,
             const UpdateInputs &inputs);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_UPDATES_H
