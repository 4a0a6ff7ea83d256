//===- PlacedValues.h - What ranks have of a program's values ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PARTITION_PLACEDVALUES_H
#define FSDP_PASSES_PARTITION_PLACEDVALUES_H

#include "passes/partition/Axis.h"

#include "llvm/ADT/DenseMap.h"

namespace fsdp {

/// Where the values of a captured program are while its operators are replaced
/// one by one, and the exchanges that bring them elsewhere. Captured values are
/// the keys.
class PlacedValues {
public:
  explicit PlacedValues(const Axis &axis) : axis(axis) {}

  /// `captured` was computed as `value`, which is placed so.
  void set(mlir::Value captured, mlir::Value value, Place place);
  /// The type of a value whose own is a part's already: an argument.
  void setWholeType(mlir::Value captured, mlir::RankedTensorType type) {
    wholeTypes[captured] = type;
  }

  mlir::RankedTensorType getWholeType(mlir::Value captured) const;
  /// Where it is as it was computed.
  Place getPlace(mlir::Value captured) const;
  /// Whether it was brought there.
  bool isAt(mlir::Value captured, Place place) const {
    return find(captured, place) != nullptr;
  }

  /// What ranks have of `captured` where it is placed so, for readers at the
  /// builder's place. Each is made once, but in backward once more.
  mlir::Value get(mlir::OpBuilder &builder, mlir::Value captured, Place to,
                  bool isBackward);

  /// Bytes that have to be sent for it; none if that is not done.
  std::optional<int64_t> getCost(mlir::Value captured, Place to) const;

  /// `op` with the operands that it was captured with.
  WholeOp describe(mlir::Operation &op) const;

  /// `op` on `operands`, which are placed as `cut` says: marked with what it
  /// was. Its first operand is copied if a view of it is impossible; null if
  /// there is no such part at all.
  mlir::Operation *buildPart(mlir::OpBuilder &builder, mlir::Operation &op,
                             const WholeOp &whole, const Cut &cut,
                             llvm::SmallVector<mlir::Value> operands) const;

private:
  mlir::Value gatherAgain(mlir::OpBuilder &builder, mlir::Value captured);
  mlir::Value repeat(mlir::OpBuilder &builder, mlir::Value captured, Place to,
                     bool isBackward);
  std::optional<Cut> findRepeat(mlir::Value captured, Place to) const;
  mlir::Value findNarrow(mlir::Value captured) const;
  mlir::Value widen(mlir::OpBuilder &builder, mlir::Value captured,
                    bool isBackward);
  const mlir::Value *find(mlir::Value captured, Place place) const;
  void setAt(mlir::Value captured, Place place, mlir::Value value);

  const Axis &axis;
  llvm::DenseMap<mlir::Value, mlir::RankedTensorType> wholeTypes;
  llvm::DenseMap<mlir::Value, Place> places;
  /// Of each captured value what was made of it, by place.
  llvm::DenseMap<mlir::Value,
                 llvm::SmallVector<std::pair<Place, mlir::Value>, 2>>
      placed;
  /// By what was gathered the captured value that it is.
  llvm::DenseMap<mlir::Value, mlir::Value> gatheredInForward;
  llvm::DenseMap<mlir::Value, mlir::Value> gatheredAgain;
};

} // namespace fsdp

#endif // FSDP_PASSES_PARTITION_PLACEDVALUES_H
