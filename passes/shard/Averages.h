//===- Averages.h - Averages of what is trained -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exponential moving averages, as #fsdp.ema says, in lerp's formula, which
// torch.optim.swa_utils takes.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_SHARD_AVERAGES_H
#define FSDP_PASSES_SHARD_AVERAGES_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVector.h"

namespace fsdp {

/// What the average of a parameter is stored as.
mlir::Type getAverageElement(StateOp param, EmaAttr ema);

/// Builds the averages of one program, in the order of its updates.
class AverageBuilder {
public:
  /// Where the builder stands from now on, `step` is the update's number, and
  /// `foundInf` 1 where there was none, or null.
  AverageBuilder(mlir::OpBuilder &builder, mlir::Location loc, EmaAttr ema,
                 mlir::Value step, mlir::Value foundInf);

  /// Builds what `build` needs beside both values, so that this may stand in
  /// front of the update.
  void prepare(mlir::Value average) { findWeight(average.getType()); }

  /// The new average of a parameter's new value, computed in f32 (f64 in f64)
  /// and rounded once.
  mlir::Value build(mlir::Value average, mlir::Value param);

private:
  mlir::Value findWeight(mlir::Type average);

  mlir::OpBuilder &builder;
  const mlir::Location loc;
  /// Of a new value, what its average takes: a scalar by type, f64's first.
  llvm::SmallVector<mlir::Value, 2> weights;
};

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_AVERAGES_H
