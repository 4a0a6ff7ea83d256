//===- LossWeight.h - Programs whose loss is weighed ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_LOSSWEIGHT_H
#define FSDP_PASSES_ANALYSIS_LOSSWEIGHT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace fsdp {

/// The result that is the share of labels by which the program's loss was
/// multiplied (support/LossWeight.h), as an output or a metric; nothing if the
/// loss is as the model says it.
std::optional<unsigned> findLossWeight(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_LOSSWEIGHT_H
