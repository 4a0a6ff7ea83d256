//===- Neighbours.h - Transfers to the next rank and back -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives turn one way alone. Back among n = 2 m ranks: each two exchange
// what they have, which is right for even ranks; odd ones then have that of the
// even rank in front of them, and need what the next odd one has: back among m.
// Back among an odd number: one turn less than there are ranks.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PLAN_NEIGHBOURS_H
#define FSDP_PASSES_PLAN_NEIGHBOURS_H

#include "passes/analysis/TensorOps.h"

namespace fsdp {

/// Transfers of contiguous tensors between ranks of a group that follow each
/// other, the first one the last; built by `ops`.
class Neighbours {
public:
  using Future = mlir::TypedValue<FutureType>;

  /// `dim` is one that all tensors have.
  Neighbours(TensorOps &ops, GroupAttr group, int64_t dim)
      : ops(ops), group(group), ranks(group.getSize()), dim(dim) {}

  /// To the next rank.
  Future startOn(llvm::ArrayRef<mlir::Value> tensors) {
    return start(tensors, group);
  }
  llvm::SmallVector<mlir::Value> await(Future future);

  /// The first step to the rank before, and all others: what the next rank had.
  Future startBack(llvm::ArrayRef<mlir::Value> tensors) {
    return startBack(tensors, ranks, 1);
  }
  llvm::SmallVector<mlir::Value> finishBack(Future future) {
    return finishBack(future, ranks, 1);
  }

private:
  Future start(llvm::ArrayRef<mlir::Value> tensors, GroupAttr over);
  GroupAttr getSubgroup(int64_t size, int64_t step) const;
  /// Among `size` of every `step`-th rank.
  Future startBack(llvm::ArrayRef<mlir::Value> tensors, int64_t size,
                   int64_t step);
  llvm::SmallVector<mlir::Value> finishBack(Future future, int64_t size,
                                            int64_t step);

  TensorOps &ops;
  GroupAttr group;
  int64_t ranks, dim;
};

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_NEIGHBOURS_H
