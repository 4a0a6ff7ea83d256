//===- Axis.h - Ranks that compute a step together --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PARTITION_AXIS_H
#define FSDP_PASSES_PARTITION_AXIS_H

#include "passes/partition/Cuts.h"

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// The ranks of one axis, and how they compute one captured program.
struct Axis {
  GroupAttr group;
  /// Whether activations are cut along the sequence where nothing else asks for
  /// parts: sums are scattered, and what forward gathers backward gathers
  /// again.
  bool alongSequence = false;
  /// Tokens of a sequence whose parts all ranks begin with; 0: ranks begin with
  /// what the plan splits.
  int64_t sequence = 0;
  bool balanced = false; ///< `#fsdp.parts`
  bool ring = false;     ///< whether attention passes keys and values on

  int64_t getRanks() const { return group.getSize(); }
  /// `tp`: gradients leave as parameters are split. `cp`: as summands.
  bool isContext() const { return sequence != 0; }
  /// How `op` may be cut, whose operands are placed so.
  Pieces getPieces(const WholeOp &op, llvm::ArrayRef<Place> operands) const;
  /// How a part of `blocks` blocks is cut; null if that goes without saying.
  PartsAttr getParts(int64_t blocks) const;
  /// What `#fsdp.placed` says of a value that is placed so, and the other way
  /// round.
  PlacedAttr toAttr(Place place) const;
  static Place toPlace(PlacedAttr placed);
  /// A part of `dim` that is cut as `parts`, which may be null, says.
  static Place toPlace(int64_t dim, PartsAttr parts) {
    return Place(dim, parts ? parts.getBlocks() : 1);
  }
};

/// What ranks have of a parameter that is split.
inline Place toPlace(SplitAttr split) {
  return Place(split.getDim(), split.getBlocks());
}

/// The axis `tp` of `told`.
Axis getTensorAxis(ParallelAttr told);

/// The axis `cp` of `told`, for one program: its sequences are those of the
/// first embedding of its tokens. Emits an error if it has none, or one that
/// the pieces of `cp` ranks do not divide.
mlir::FailureOr<Axis> getContextAxis(mlir::func::FuncOp func,
                                     ParallelAttr told);

} // namespace fsdp

#endif // FSDP_PASSES_PARTITION_AXIS_H
