//===- Disturbed.h - What later readers do not find -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_DISTURBED_H
#define FSDP_PASSES_KERNELS_DISTURBED_H

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// What an update writes: gradients as well, where LibTorch divides them.
llvm::SmallVector<mlir::Value> listWritten(UpdateOp update);

/// Operands that `op` frees or overwrites, if it is no operator: who reads them
/// in front of it may not move behind it.
llvm::SmallVector<mlir::Value> listDisturbed(mlir::Operation *op);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_DISTURBED_H
