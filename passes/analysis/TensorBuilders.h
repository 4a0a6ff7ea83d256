//===- TensorBuilders.h - Views and copies of tensors -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_TENSORBUILDERS_H
#define FSDP_PASSES_ANALYSIS_TENSORBUILDERS_H

#include "ir/aten/Aten.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace fsdp {

inline mlir::RankedTensorType getTensor(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// "aten.mm".
inline llvm::StringRef getName(mlir::Operation *op) {
  return op->getName().getStringRef();
}

/// The tensor of `type`, strides included, that begins at element `offset` of
/// `source`'s storage.
mlir::Value buildView(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value source, int64_t offset,
                      mlir::RankedTensorType type);

/// `op`, which has one operand, once more, of `operand`.
mlir::Operation *repeatOn(mlir::OpBuilder &builder, mlir::Operation *op,
                          mlir::Value operand);

/// A copy of `source` in row-major order.
mlir::Value buildContiguousCopy(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::Value source);

/// Dims from the slowest to the fastest in memory.
llvm::SmallVector<int64_t> getMemoryOrder(mlir::RankedTensorType type);
/// A dense tensor of `shape` whose dims lie in memory in the order of those of
/// `like`; row-major if that is contiguous.
mlir::RankedTensorType getDenseType(mlir::RankedTensorType like,
                                    llvm::ArrayRef<int64_t> shape);

/// `type` with its dim `order[i]` as dim i, a view of the same memory.
mlir::RankedTensorType getPermutedType(mlir::RankedTensorType type,
                                       llvm::ArrayRef<int64_t> order);
/// That view of `source`.
mlir::Value buildPermute(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value source, llvm::ArrayRef<int64_t> order);

/// An operator that makes a 0-d tensor of `element`.
mlir::Value buildScalarOp(mlir::OpBuilder &builder, mlir::Location loc,
                          llvm::StringRef name,
                          llvm::ArrayRef<aten::TensorArgument> tensors,
                          llvm::ArrayRef<mlir::NamedAttribute> arguments,
                          mlir::Type element);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_TENSORBUILDERS_H
