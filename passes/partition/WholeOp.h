//===- WholeOp.h - An operator before it is computed in parts ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PARTITION_WHOLEOP_H
#define FSDP_PASSES_PARTITION_WHOLEOP_H

#include "ir/aten/Aten.h"

#include "mlir/IR/Operation.h"

namespace fsdp {

/// An operator of the captured program: its static arguments and the types of
/// its operands and results as they were captured, whatever `op` has by now.
struct WholeOp {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<mlir::RankedTensorType> operands;
  llvm::SmallVector<mlir::RankedTensorType> results; ///< null: no tensor
  mlir::DictionaryAttr property;

  /// `op`, whose operands and results have the types that were captured.
  static WholeOp ofCaptured(mlir::Operation *op);
  /// `op`, computed in parts and marked with what it was; operands are of the
  /// types given.
  static WholeOp ofPart(mlir::Operation *op,
                        llvm::ArrayRef<mlir::RankedTensorType> operands);

  llvm::StringRef getName() const { return op->getName().getStringRef(); }
  /// The static argument `name` or its default; null for None.
  mlir::Attribute getStatic(llvm::StringRef name) const;
  std::optional<int64_t> getInt(llvm::StringRef name) const;
  /// A list of ints, or one as a list; none for None.
  std::optional<llvm::SmallVector<int64_t>> getInts(llvm::StringRef name) const;
  /// `name`, an index of one of `rank` dims, from 0.
  std::optional<int64_t> getDim(llvm::StringRef name, int64_t rank) const;
  /// The operand of the tensor argument `name`; -1 if there is none.
  int64_t getOperandIndex(llvm::StringRef name) const;
  /// The schema's name for each operand.
  llvm::SmallVector<llvm::StringRef> getOperandNames() const;
};

} // namespace fsdp

#endif // FSDP_PASSES_PARTITION_WHOLEOP_H
