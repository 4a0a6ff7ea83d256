//===- StreamOrder.h - Is memory reused after its last use? -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PLAN_STREAMORDER_H
#define FSDP_PASSES_PLAN_STREAMORDER_H

#include "passes/analysis/Liveness.h"

namespace fsdp {

/// Checks that every transfer starts, on its stream, after all computation that
/// touched the bytes it reads or writes: an `await` on its stream of an event
/// that compute recorded later than that. `addresses` has one entry for each
/// storage. Emits an error at the first transfer that might come too early.
mlir::LogicalResult verifyStreamOrder(mlir::func::FuncOp program,
                                      const Liveness &liveness,
                                      llvm::ArrayRef<int64_t> addresses);

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_STREAMORDER_H
