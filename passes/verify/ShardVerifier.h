//===- ShardVerifier.h - What may be done with shards -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_VERIFY_SHARDVERIFIER_H
#define FSDP_PASSES_VERIFY_SHARDVERIFIER_H

#include "passes/analysis/States.h"

namespace fsdp {

/// The maximum over ranks that `encode` scales by; null if there is none.
AllReduceOp getMaximum(EncodeOp encode);

/// One program's ops, in their order. Emits errors at them.
class ShardVerifier {
public:
  ShardVerifier(mlir::func::FuncOp func, const StateTable &states,
                MeshAttr mesh)
      : func(func), states(states), mesh(mesh) {}

  /// What ranks compute together is exchanged along the mesh's own axis, and is
  /// no gradient's reduction.
  mlir::LogicalResult verifyParallel(mlir::Operation &op) const;
  /// Invariant P: rows beyond the end of a shard are zero.
  mlir::LogicalResult verifyPadding(mlir::Operation &op);

private:
  /// The scale of a shard is that of the whole parameter: of the greatest value
  /// of all of its shards.
  mlir::LogicalResult verifyScale(EncodeOp encode) const;

  mlir::func::FuncOp func;
  const StateTable &states;
  MeshAttr mesh;
  llvm::DenseSet<mlir::Value> shards;
};

} // namespace fsdp

#endif // FSDP_PASSES_VERIFY_SHARDVERIFIER_H
