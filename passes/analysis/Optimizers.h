//===- Optimizers.h - What all optimizer ops share --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_OPTIMIZERS_H
#define FSDP_PASSES_ANALYSIS_OPTIMIZERS_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace fsdp {

/// Parameters and their gradients, one for each, as an optimizer op takes them,
/// and the parameters' new values.
struct OptimizerUpdate {
  mlir::OperandRange params, grads;
  mlir::ResultRange newParams;
  mlir::Value gradScale; ///< divides the gradients; may be null
};

/// Nothing for ops that are no optimizers.
std::optional<OptimizerUpdate> getOptimizerUpdate(mlir::Operation *op);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_OPTIMIZERS_H
