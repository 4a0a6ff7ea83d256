//===- Float8Products.h - Matrices in eight bits, multiplied ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_FLOAT8PRODUCTS_H
#define FSDP_PASSES_SHARD_FLOAT8PRODUCTS_H

#include "passes/analysis/TensorOps.h"
#include "passes/shard/Float8Layers.h"
#include "passes/shard/LowPrecision.h"

#include "llvm/ADT/DenseMap.h"

namespace fsdp {

/// Neighbours along what a product sums that share a scale by the recipe
/// `mxfp8` (OCP Microscaling Formats, MXFP8).
constexpr int64_t kScaleBlock = 32;

/// A matrix in eight bits, as one factor of a product reads it.
struct Float8Value {
  mlir::Value data;
  /// What it is to be multiplied by: a number, or one for each row or column;
  /// of blocks, for each as products of the device want them, or null.
  mlir::Value inverse;
  mlir::Value wide; ///< of blocks where products know none: the numbers in f32
};

/// Casts matrices of one program, each once, and multiplies them.
class Float8Products {
public:
  /// `readsInOrder`: the device's products want what they sum to be contiguous.
  /// `made` is told of each cast, and outlives it.
  Float8Products(Float8Recipe recipe, bool readsInOrder, CastList &made)
      : recipe(recipe), readsInOrder(readsInOrder), madeCasts(made) {}

  /// `value` in eight bits for a product that sums over its dim `summed`.
  Float8Value quantize(TensorOps &ops, Matrix value, int64_t summed,
                       bool isGradient, llvm::StringRef name);

  /// Forward's results may be summed faster, with fewer digits between, as
  /// torchao's gemm_config_output says.
  mlir::Value multiply(TensorOps &ops, Float8Value a, Float8Value b,
                       mlir::RankedTensorType type, bool isForward);

private:
  /// A matrix in row-major order.
  struct Cast {
    mlir::Value code;
    mlir::Value inverse; ///< of blocks: with the dims of `getSplit`
  };

  bool hasBlocks() const { return recipe == Float8Recipe::Mxfp8; }
  bool isWhole() const { return recipe == Float8Recipe::Tensorwise; }
  Cast cast(TensorOps &ops, mlir::Value source, mlir::Type element, int64_t dim,
            llvm::StringRef name);
  mlir::Value turn(TensorOps &ops, mlir::Value data);
  mlir::Value widen(TensorOps &ops, const Cast &cast, int64_t dim);
  mlir::Value arrange(TensorOps &ops, mlir::Value inverse, int64_t dim);

  Float8Recipe recipe;
  bool readsInOrder;
  CastList &madeCasts;
  llvm::DenseMap<std::tuple<mlir::Value, mlir::Type, int64_t>, Cast> casts;
  llvm::DenseMap<mlir::Value, mlir::Value> turned;
  llvm::DenseMap<mlir::Value, mlir::Value> arranged; ///< scales, by their value
};

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_FLOAT8PRODUCTS_H
