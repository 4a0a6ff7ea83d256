//===- RankMajor.h - Buckets that travel in one tensor ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In a bucket of the layout `fsdp2` each rank's shards of all members lie side
// by side. A gather puts the ranks' pieces one behind the other: rank-major, so
// that a member's rows lie scattered, at one offset in each piece. Gradients
// are laid out so before they are reduced. Here stands how that is written with
// existing ops, and how a member is followed through it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ANALYSIS_RANKMAJOR_H
#define FSDP_PASSES_ANALYSIS_RANKMAJOR_H

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// Elements of each type's tensor, added up: where members begin in one rank's
/// piece, in elements. The piece's size comes last.
llvm::SmallVector<int64_t> getPieceOffsets(llvm::ArrayRef<mlir::Type> shards);

/// Shards side by side: one rank's piece, of one dim.
mlir::Value buildPiece(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::ValueRange shards);

/// Full tensors as `ranks` pieces, with zeros for missing rows: one piece a
/// row.
mlir::Value buildPieces(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::ValueRange full, int64_t ranks);

/// A copy of the rows of a member out of the `ranks` pieces that `pieces`
/// holds: `full` has them all, `shard` is what one piece has of it.
mlir::Value buildMemberOfPieces(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::Value pieces, int64_t ranks,
                                int64_t offset, mlir::RankedTensorType shard,
                                mlir::RankedTensorType full);

/// A member on its way: the transfer that moves it, and the tensor that was
/// copied into the transfer's operand for it.
struct MovedMember {
  mlir::Operation *start = nullptr;
  mlir::Value source;
};

/// What a tensor comes from that `buildMemberOfPieces` copied out of a gather,
/// or that is a member's view of a reduced piece; empty for all others. Exact:
/// offsets, shapes and groups must agree.
MovedMember getMovedMember(mlir::Value value);

/// What was copied into an operand of a transfer; empty if nothing was.
mlir::ValueRange getCopiedMembers(mlir::Value operand);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_RANKMAJOR_H
