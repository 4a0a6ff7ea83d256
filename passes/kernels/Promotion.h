//===- Promotion.h - The type that an operator computes in ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_PROMOTION_H
#define FSDP_PASSES_KERNELS_PROMOTION_H

#include "plan/plan_generated.h"

#include "mlir/IR/Operation.h"

namespace fsdp {

/// What LibTorch's promotion makes of an op's tensors and its number `other`,
/// if it has one: tensors with dims before those without, and these before
/// numbers. f64 for types that kernels do not know.
plan::DType promoteOperands(mlir::Operation *op);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_PROMOTION_H
