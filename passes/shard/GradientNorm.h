//===- GradientNorm.h - The global norm of sharded gradients ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What one rank knows is reduced over all ranks of the mesh, replicas too, in
// one scalar:
//   p = 1, 2  each rank has the sum of |g|^p over its own elements. The mean
//             over all ranks, times the ranks of one replica ('shard' and
//             'tp'), is the sum over all elements: replicas hold equal shards
//             and do not count twice. Of a gradient that several ranks of a
//             replica have, each adds its part: the sum divided by how many
//             they are.
//   p = inf   each rank has its greatest |g|; the greatest of these is the
//             norm.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_SHARD_GRADIENT_NORM_H
#define FSDP_PASSES_SHARD_GRADIENT_NORM_H

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/States.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

#include <map>

namespace fsdp {

/// The orders that torch.nn.utils.clip_grad_norm_ is used with.
enum class NormOrder { One, Two, Inf };

/// Nothing for other numbers than 1, 2 and infinity.
std::optional<NormOrder> getNormOrder(double order);

/// How ranks' terms become one.
Reduction getReduction(NormOrder order);

/// Norms of single gradients, scalars of f32 or f64, by gradient.
using GradientNorms = llvm::DenseMap<mlir::Value, mlir::Value>;

/// Takes those of `gradients` where the builder stands.
void buildNorms(mlir::OpBuilder &builder, mlir::Location loc, NormOrder order,
                mlir::ValueRange gradients, GradientNorms &norms);

/// How many ranks of a replica hold each of a state's elements.
int64_t getHolders(StateOp state, MeshAttr mesh, const StateTable &states);

/// Gradients by how many ranks of a replica hold each element.
using HeldGradients = std::map<int64_t, llvm::SmallVector<mlir::Value>>;

/// This rank's term, as one f32: padding rows are zero and do not count.
/// Half-precision gradients are summed in f32, f64 ones in f64. All are of
/// floating point. Norms that are `known` are not taken again: the term has the
/// same bits, wherever they were taken.
mlir::Value buildNormTerm(mlir::OpBuilder &builder, mlir::Location loc,
                          NormOrder order, const HeldGradients &gradients,
                          const GradientNorms &known);

/// The norm, from the ranks' reduced terms. `ranks` are those of a replica.
mlir::Value buildNorm(mlir::OpBuilder &builder, mlir::Location loc,
                      NormOrder order, mlir::Value reduced, int64_t ranks);

/// The norm of gradients that are still to be divided by `divisor`.
mlir::Value divideNorm(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value norm, double divisor);

/// What divides gradients by `factor` as well as by `divisor`, which may be
/// null.
mlir::Value buildDivisor(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value divisor, double factor);

/// What gradients are divided by to clip their norm to `maxNorm`: at least 1.
mlir::Value buildClipDivisor(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Value norm, double maxNorm);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_GRADIENT_NORM_H
