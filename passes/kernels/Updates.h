//===- Updates.h - What updates do to an element ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `fsdp.update` with rates is an operator of kernels: all that depends on the
// number of the step and on the learning rate alone is computed once, in f64,
// as LibTorch's fused kernels do; the rest element by element.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_UPDATES_H
#define FSDP_PASSES_KERNELS_UPDATES_H

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/TensorOps.h"
#include "passes/kernels/Rules.h"

namespace fsdp {

/// Whether kernels have a formula for the update's kind, and for the types of
/// what it goes by.
bool canBeOfKernel(UpdateOp op);
/// What `op` goes by, as the rule of its kind reads it. Built by `ops`, where
/// step and learning rate are known.
llvm::SmallVector<mlir::Value> buildRates(UpdateOp op, TensorOps &ops);

/// Parameter, gradient and moments of one of the parameters.
llvm::SmallVector<mlir::Value> getOperandsOf(UpdateOp op, unsigned param);

/// The rule of updates with rates.
const KernelRule &getUpdateRule();
/// The operands' names in their order, as the rule asks for them.
llvm::SmallVector<llvm::StringRef> nameOperands(UpdateOp op);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_UPDATES_H
