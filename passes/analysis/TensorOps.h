//===- TensorOps.h - Operators one behind the other --------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_TENSOROPS_H
#define FSDP_PASSES_ANALYSIS_TENSOROPS_H

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/TensorBuilders.h"

namespace fsdp {

inline llvm::SmallVector<int64_t> joinSizes(llvm::ArrayRef<int64_t> front,
                                            llvm::ArrayRef<int64_t> back) {
  llvm::SmallVector<int64_t> all(front);
  llvm::append_range(all, back);
  return all;
}

/// The number of a rank's early or late one of `2 * ranks` pieces of a balanced
/// part (`#fsdp.parts`).
inline int64_t getPiece(int64_t rank, int64_t ranks, bool late) {
  return late ? 2 * ranks - 1 - rank : rank;
}

/// `shape` with dim `dim` as `blocks` blocks and what is in each, unless it is
/// one.
llvm::SmallVector<int64_t> splitBlocks(llvm::ArrayRef<int64_t> shape,
                                       int64_t dim, int64_t blocks);

/// Builds ops one behind the other, in front of an op.
class TensorOps {
public:
  explicit TensorOps(mlir::Operation *place)
      : builder(place), loc(place->getLoc()) {}

  mlir::OpBuilder &get() { return builder; }
  mlir::Location getLoc() const { return loc; }
  void setLoc(mlir::Location now) { loc = now; }
  /// Builds in front of `place` from now on.
  void moveTo(mlir::Operation *place) {
    builder.setInsertionPoint(place);
    loc = place->getLoc();
  }

  mlir::Value make(llvm::StringRef name,
                   llvm::ArrayRef<aten::TensorArgument> tensors,
                   llvm::ArrayRef<mlir::NamedAttribute> arguments,
                   mlir::RankedTensorType type);
  /// `op` with other operands and results, and arguments if these are given.
  mlir::Operation *remake(mlir::Operation *op, mlir::ValueRange operands,
                          mlir::TypeRange types,
                          mlir::Attribute arguments = {});

  mlir::NamedAttribute integer(llvm::StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  }
  mlir::NamedAttribute integers(llvm::StringRef name,
                                llvm::ArrayRef<int64_t> values) {
    return builder.getNamedAttr(name, builder.getI64ArrayAttr(values));
  }
  mlir::NamedAttribute type(mlir::Type element) {
    return builder.getNamedAttr("dtype", mlir::TypeAttr::get(element));
  }

  /// Of a contiguous tensor; itself if that is its shape.
  mlir::Value view(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// Contiguous; itself if it is that.
  mlir::Value copy(mlir::Value value);
  mlir::Value slice(mlir::Value value, int64_t dim, int64_t start, int64_t end);
  mlir::Value select(mlir::Value value, int64_t dim, int64_t index);
  /// Contiguous, as are the next two.
  mlir::Value flip(mlir::Value value, int64_t dim);
  mlir::Value stack(llvm::ArrayRef<mlir::Value> values, int64_t dim);
  mlir::Value expand(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value);
  /// Itself if it has that element type.
  mlir::Value cast(mlir::Value value, mlir::Type element);
  /// Of the type of `a`.
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value divide(mlir::Value a, mlir::Value b);
  mlir::Value fill(mlir::Attribute value, llvm::ArrayRef<int64_t> shape,
                   mlir::Type element);
  /// Behind one another along a dim; contiguous.
  mlir::Value cat(llvm::ArrayRef<mlir::Value> values, int64_t dim);
  /// `length` rows of `dim` from `starts[rank]` on.
  mlir::Value selectRows(mlir::Value value, int64_t dim,
                         llvm::ArrayRef<int64_t> starts, int64_t length,
                         GroupAttr group);

private:
  mlir::OpBuilder builder;
  mlir::Location loc;
};

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_TENSOROPS_H
