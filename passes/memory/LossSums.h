//===- LossSums.h - Sums over the chunks of a loss --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_MEMORY_LOSSSUMS_H
#define FSDP_PASSES_MEMORY_LOSSSUMS_H

#include "passes/analysis/States.h"
#include "passes/analysis/TensorOps.h"

namespace fsdp {

inline bool isHalf(mlir::Type element) {
  return element.isF16() || element.isBF16();
}

/// Values of a program that are sums over all rows, to which each chunk adds
/// its part.
class LossSums {
public:
  LossSums(mlir::func::FuncOp func, const StateTable &states, TensorOps &ops)
      : func(func), states(states), ops(ops) {}

  /// The element type that parts of `value` are added up in: that in which a
  /// gradient of a parameter is reduced if it is one, and no half one for
  /// others.
  mlir::Type getType(mlir::Value value);

  void add(mlir::Value value, mlir::Value part);
  /// The product of two matrices.
  void addProduct(mlir::Value value, mlir::Value left, mlir::Value right);
  /// Behind the last chunk.
  mlir::Value get(mlir::Value value);

private:
  mlir::Type findReduceType(mlir::Value value);

  mlir::func::FuncOp func;
  const StateTable &states;
  TensorOps &ops;
  llvm::DenseMap<mlir::Value, mlir::Value> sums;
  /// Of numbers, the parts: the loss needs them, and forward ends where they
  /// are there.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> numbers;
};

} // namespace fsdp

#endif // FSDP_PASSES_MEMORY_LOSSSUMS_H
