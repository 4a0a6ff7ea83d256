//===- SpellNorms.h - Norms of lists, as sums of squares --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_SPELLNORMS_H
#define FSDP_PASSES_KERNELS_SPELLNORMS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Norms of order 2 of lists of tensors become the root of a sum of squares
/// each, in f32, by rows that kernels sum: LibTorch takes twice as long, and
/// kernels square where a gradient is cast. With `joins`, of norms that only
/// the norm of all of them reads, the sums of rows are summed at once.
void spellNorms(mlir::func::FuncOp program, bool joins);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_SPELLNORMS_H
