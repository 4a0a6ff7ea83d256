//===- PullProducers.h - Compute again what backward reads ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_PULLPRODUCERS_H
#define FSDP_PASSES_KERNELS_PULLPRODUCERS_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// A result that is computed again for readers far behind it.
struct PulledResult {
  mlir::Value original, copy;
  llvm::SmallVector<mlir::Operation *> ops; ///< that compute it again
};

/// Where all that reads an operator's result are operators of kernels, far
/// behind it, and its operands are there anyway, or take less memory than the
/// result: computes it again in front of these, who would otherwise keep it. A
/// softmax of what takes half its memory is computed again for its gradient,
/// however near. What nobody reads any more is left standing, for dropUnread.
/// Bits stay the same.
llvm::SmallVector<PulledResult> pullProducers(mlir::func::FuncOp program);

/// Gives readers of a copy its original back.
void pushBack(const PulledResult &pulled);

/// Erases operators of kernels, and views, that nobody reads.
void dropUnread(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_PULLPRODUCERS_H
