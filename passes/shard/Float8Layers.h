//===- Float8Layers.h - Linear layers and their products --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_FLOAT8LAYERS_H
#define FSDP_PASSES_SHARD_FLOAT8LAYERS_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace fsdp {

class StateTable;

/// A matrix, or its transpose.
struct Matrix {
  mlir::Value base;
  bool isTransposed = false;

  explicit Matrix(mlir::Value value);
  Matrix transposed() const;
  bool operator==(const Matrix &) const = default;
};

/// What a product of a linear layer makes.
enum class LinearProduct { Output, InputGradient, WeightGradient };

/// One product of a layer: `aten.mm`, or `aten.addmm` with a bias.
struct LayerProduct {
  mlir::Operation *op;
  LinearProduct kind;
};

/// A module that multiplies its input by the transpose of its parameter
/// `weight`, once or several times, and what backward multiplies for it.
struct LinearLayer {
  std::string path; ///< "layers.0.fc1"; empty: the model
  StateOp weight;
  llvm::SmallVector<LayerProduct> products; ///< in the order of the program
};

/// The linear layers of `func` in the order of the program. Fails after it has
/// said which product of a layer that `isWanted` is none of the three kinds, or
/// which layer has fewer gradients of its weight than outputs.
mlir::FailureOr<llvm::SmallVector<LinearLayer>>
findLinearLayers(mlir::func::FuncOp func, const StateTable &states,
                 llvm::function_ref<bool(const LinearLayer &)> isWanted);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_FLOAT8LAYERS_H
