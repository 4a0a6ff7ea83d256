//===- Programs.h - Functions of a module and their states ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_PROGRAMS_H
#define FSDP_PASSES_ANALYSIS_PROGRAMS_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace fsdp {

/// Name of the bucket of what no wrapped module holds.
inline constexpr llvm::StringLiteral kRootBucket = "root";
/// Name of the bucket of loss and gradient norm.
inline constexpr llvm::StringLiteral kMetricsBucket = "metrics";
/// Of the greatest values of the optimizer's blocks that ranks share.
inline constexpr llvm::StringLiteral kMaximaBucket = "optimizer/maxima";
/// Name of the output that is the gradients' norm.
inline constexpr llvm::StringLiteral kGradNormOutput = "grad_norm";
/// Name of the metric that is what the loss is multiplied by.
inline constexpr llvm::StringLiteral kLossScaleMetric = "loss_scale";

/// Whether others are compared with it: no pass changes it.
bool isReference(mlir::func::FuncOp func);
/// Whether it only computes outputs: it has neither gradients nor an optimizer,
/// and no loss but as one of the outputs. For validation as well.
bool isInference(mlir::func::FuncOp func);
/// Whether it stands beside a program that trains, whose loss it computes and
/// whose states it leaves alone.
bool isValidation(mlir::func::FuncOp func);

/// The functions with a body that are no references.
llvm::SmallVector<mlir::func::FuncOp> getPrograms(mlir::ModuleOp module);

/// Names of the mesh axes: parameters are cut along the one, replicas of the
/// shards stand along the other, and along the third what computes a step of
/// one batch together.
inline constexpr llvm::StringLiteral kShardAxis = "shard";
inline constexpr llvm::StringLiteral kReplicateAxis = "replicate";
inline constexpr llvm::StringLiteral kTensorAxis = "tp";
/// No axis of the mesh, but adjacent parts of 'shard'.
inline constexpr llvm::StringLiteral kContextAxis = "cp";

/// The mesh of a sharded module: an axis 'shard', in front of it one
/// 'replicate' if there is more than one replica, and behind it one 'tp' if
/// more than one rank computes a step of one batch. Emits an error if there is
/// no such mesh.
mlir::FailureOr<MeshAttr> getDataMesh(mlir::ModuleOp module);
/// Ranks that a parameter is cut over.
int64_t getShardSize(MeshAttr mesh);
/// Ranks that hold parts of what one rank has of a parameter's shard.
int64_t getTensorSize(MeshAttr mesh);
/// All ranks whose gradients are added up: those of 'replicate' and 'shard', as
/// far apart as what stands behind these is large. Called as the only axis with
/// more than one of them, else "world" if all ranks do, else "data".
GroupAttr getDataGroup(MeshAttr mesh);

/// Those that compute a step of one batch together, of which `told` says how
/// many: adjacent ranks that have parts of parameters.
GroupAttr getTensorGroup(ParallelAttr told);
/// Those that compute parts of the sequences of one batch, with whole
/// parameters each but for `tp`: as far apart as that is large.
GroupAttr getContextGroup(ParallelAttr told);

/// Whether `op` moves, reduces or cuts what ranks compute a step of one batch
/// with together, and no parameter or gradient.
bool isOfStep(mlir::Operation *op);

/// The states of a module by name and number. Valid until one is added.
class StateTable {
public:
  explicit StateTable(mlir::ModuleOp module);

  llvm::ArrayRef<StateOp> getStates() const { return states; }
  /// Null if there is none.
  StateOp lookup(mlir::StringAttr name) const;
  StateOp lookup(mlir::FlatSymbolRefAttr ref) const {
    return ref ? lookup(ref.getAttr()) : StateOp();
  }
  /// The state that an argument is bound to, or null.
  StateOp lookup(mlir::func::FuncOp func, unsigned argument) const {
    return lookup(
        func.getArgAttrOfType<mlir::FlatSymbolRefAttr>(argument, kStateAttr));
  }
  /// What lies in a flat state, in its order; nothing for other states.
  llvm::ArrayRef<StateOp> getMembers(StateOp flat) const;
  /// Position in the table, which is the order of a bucket's members.
  unsigned getIndex(StateOp state) const { return index.at(state); }

private:
  llvm::SmallVector<StateOp> states;
  llvm::DenseMap<mlir::StringAttr, StateOp> byName;
  llvm::DenseMap<mlir::Operation *, unsigned> index;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<StateOp>> members;
};

/// Gives `func` an argument for each state, bound to it, behind those of other
/// states and in front of the inputs.
llvm::SmallVector<mlir::BlockArgument>
addStateArguments(mlir::func::FuncOp func, llvm::ArrayRef<StateOp> states);

/// The gathered tensors that the program leaves in states, for further
/// micro-batches.
llvm::DenseSet<mlir::Value> getKept(mlir::func::FuncOp func,
                                    const StateTable &states);

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

#endif // FSDP_PASSES_ANALYSIS_PROGRAMS_H
