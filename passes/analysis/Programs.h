//===- Programs.h - Functions of a module and their states ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_PROGRAMS_H
#define FSDP_PASSES_ANALYSIS_PROGRAMS_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace fsdp {

/// Name of the bucket of what no wrapped module holds.
inline constexpr llvm::StringLiteral kRootBucket = "root";
/// Name of the bucket of loss and gradient norm.
inline constexpr llvm::StringLiteral kMetricsBucket = "metrics";
/// Name of the output that is the gradients' norm.
inline constexpr llvm::StringLiteral kGradNormOutput = "grad_norm";
/// Functions called so are what others are compared with; no pass changes them.
inline constexpr llvm::StringLiteral kReferencePrefix = "reference/";

/// Programs called so only compute outputs: they have neither gradients nor an
/// optimizer, and no loss but as one of the outputs.
inline constexpr llvm::StringLiteral kInferencePrefix = "infer/";

bool isReference(mlir::func::FuncOp func);
bool isInference(mlir::func::FuncOp func);

/// The functions with a body that are no references.
llvm::SmallVector<mlir::func::FuncOp> getPrograms(mlir::ModuleOp module);

/// The mesh of a sharded module, which has one axis, 'shard', over all ranks.
/// Emits an error if there is no such mesh.
mlir::FailureOr<MeshAttr> getDataMesh(mlir::ModuleOp module);

/// Whether the state is trained or frozen, not a buffer or the like.
bool isParameter(StateOp state);

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
  /// Position in the table, which is the order of a bucket's members.
  unsigned getIndex(StateOp state) const { return index.at(state); }

private:
  llvm::SmallVector<StateOp> states;
  llvm::DenseMap<mlir::StringAttr, StateOp> byName;
  llvm::DenseMap<mlir::Operation *, unsigned> index;
};

/// The argument that a shard comes from through casts and replays, or null.
mlir::BlockArgument getShardSource(mlir::Value shard);

/// Casts and replays, which may stand between a shard and its gather.
bool isShardSide(mlir::Operation *op);

bool isStart(mlir::Operation *op);
/// What a start moved, if the value is a result of its wait, else null.
mlir::Value getTransferred(mlir::Value value);
/// A gather, reduction or transfer, logical or scheduled.
bool isCollective(mlir::Operation *op);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_PROGRAMS_H
