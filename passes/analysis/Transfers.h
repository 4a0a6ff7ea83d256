//===- Transfers.h - What moves shards and gradients ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_TRANSFERS_H
#define FSDP_PASSES_ANALYSIS_TRANSFERS_H

#include "passes/analysis/States.h"

namespace fsdp {

/// Whether `op` moves, reduces or cuts what ranks compute a step of one batch
/// with together, and no parameter or gradient.
bool isOfStep(mlir::Operation *op);

/// The argument that an optimizer's operand is, or is a copy of in another
/// memory; null if it is none.
mlir::BlockArgument getUpdatedArgument(mlir::Value param);

/// The argument that a shard comes from, through casts, replays and parts that
/// were kept of a gathered tensor, or null.
mlir::BlockArgument getShardSource(mlir::Value shard);

/// Casts, scalings for casts to eight bits, replays and copies between
/// memories, which may stand between a shard and its gather.
bool isShardSide(mlir::Operation *op);

/// The start of the copy between memories that made `value`, which is a result
/// of its wait; else null.
CopyStartOp getCopy(mlir::Value value);

/// What `shard` was made of by one of these, or by a copy that was started;
/// null if by none.
mlir::Value getShardSideOperand(mlir::Value shard);

/// Whether a replay is among what a shard was made by.
bool isReplayed(mlir::Value shard);

/// Whether a value was given to the program: an argument, or a replay of one.
bool isGiven(mlir::Value value);

/// Whether gathers alone read what an op makes, and copies that were started,
/// directly or through what may stand between a shard and its gather.
bool isReadByGathersOnly(mlir::Operation *op);

/// Casts, running sums, copies between memories, all-reduces and what undoes
/// the scale with which it travelled: what a reduced gradient may go through on
/// its way to the optimizer. They belong to the reduction in front of them.
bool isReductionTail(mlir::Operation *op);

/// What reads results of `ops` and `isWanted`, directly or through others of
/// them, as it is found.
llvm::SmallVector<mlir::Operation *>
collectReaders(llvm::ArrayRef<mlir::Operation *> ops,
               llvm::function_ref<bool(mlir::Operation *)> isWanted);

/// The start that moved a value, which is a result of its wait; else null.
StartOpInterface getTransfer(mlir::Value value);
/// What that start moved, else null.
mlir::Value getTransferred(mlir::Value value);
/// The state that an operand of a start is a shard, or the gradient, of; null
/// if it is not one state's.
StateOp getMovedState(StartOpInterface start, unsigned operand,
                      const StateTable &states);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_TRANSFERS_H
