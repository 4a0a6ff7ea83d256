//===- SpellLosses.h - Losses, as numbers of rows and their sum -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_SPELLLOSSES_H
#define FSDP_PASSES_KERNELS_SPELLLOSSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// `nll_loss_forward` of f32, as a mean or a sum, becomes a number for each
/// row, which the kernel of its log-softmax makes, and their sum. LibTorch
/// still refuses targets that are no class: it looks numbers up by them.
void spellLosses(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_SPELLLOSSES_H
