//===- WholeOp.h - An operator before it is computed in parts ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PARTITION_WHOLEOP_H
#define FSDP_PASSES_PARTITION_WHOLEOP_H

#include "ir/aten/Aten.h"

#include "mlir/IR/Operation.h"

namespace fsdp {

/// An operator as the ranks of an axis compute it together: its static
/// arguments and the types of its operands and results, whatever `op` has for a
/// part by now.
struct WholeOp {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<mlir::RankedTensorType> operands;
  llvm::SmallVector<mlir::RankedTensorType> results; ///< null: no tensor
  mlir::DictionaryAttr property;

  /// `op`, which was captured with operands of the types given. If it is
  /// computed in parts, what it was it is marked with.
  static WholeOp of(mlir::Operation *op,
                    llvm::ArrayRef<mlir::RankedTensorType> operands);
  /// `op`, which no rank computes a part of yet.
  static WholeOp ofCaptured(mlir::Operation *op);

  llvm::StringRef getName() const { return op->getName().getStringRef(); }
  /// The static argument `name` or its default; null for None.
  mlir::Attribute getStatic(llvm::StringRef name) const;
  std::optional<int64_t> getInt(llvm::StringRef name) const;
  /// A list of ints, or one as a list; none for None.
  std::optional<llvm::SmallVector<int64_t>> getInts(llvm::StringRef name) const;
  /// `name`, an index of one of `rank` dims, from 0.
  std::optional<int64_t> getDim(llvm::StringRef name, int64_t rank) const;
  /// `name`, several of them, or one as a list; none for None.
  std::optional<llvm::SmallVector<int64_t>> getDims(llvm::StringRef name,
                                                    int64_t rank) const;
  /// The schema's name for each operand.
  llvm::SmallVector<llvm::StringRef> getOperandNames() const;
};

} // namespace fsdp

#endif // FSDP_PASSES_PARTITION_WHOLEOP_H
