//===- SplitUpdates.h - Updates as operators of kernels ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_SPLITUPDATES_H
#define FSDP_PASSES_KERNELS_SPLITUPDATES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Gives a parameter an update of its own, with rates, where kernels make its
/// gradient or read it, or read what it becomes, so that what casts or squares
/// a gradient updates the parameter as well, and what averages the parameter
/// does. Whether there is any.
bool splitUpdates(mlir::func::FuncOp program);

/// Makes those that are in no kernel updates of many parameters again.
void joinUpdates(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_SPLITUPDATES_H
