//===- LossOperands.h - What the ops of a loss are given --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_MEMORY_LOSSOPERANDS_H
#define FSDP_PASSES_MEMORY_LOSSOPERANDS_H

#include "ir/aten/Aten.h"
#include "passes/analysis/LossReduction.h"
#include "passes/analysis/TensorBuilders.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace fsdp {

/// Whether the op reads nothing of its tensor operand but the shape
/// (`aten.ones_like`), and what it fills its result with.
std::optional<mlir::Attribute> getFill(mlir::Operation *op);

/// Dims of an argument that is one or a list of them, counted from 0.
llvm::SmallVector<int64_t> getDims(mlir::Operation *op, llvm::StringRef name,
                                   int64_t rank);

/// The static argument, an integer.
int64_t getInteger(mlir::Operation *op, llvm::StringRef name,
                   int64_t otherwise = 0);

/// The tensors of an `aten.nll_loss_forward` or `aten.nll_loss_backward`; null
/// what it is not given.
struct LossOperands {
  mlir::Value upstream; ///< of backward: the gradient of the loss
  mlir::Value scores, target, weight;
  mlir::Value total; ///< of backward: by what a mean divided

  explicit LossOperands(mlir::Operation *loss);
};

} // namespace fsdp

#endif // FSDP_PASSES_MEMORY_LOSSOPERANDS_H
