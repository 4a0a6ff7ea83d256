//===- TransferMemory.h - Is what a transfer moves left alone? --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PLAN_TRANSFERMEMORY_H
#define FSDP_PASSES_PLAN_TRANSFERMEMORY_H

#include "passes/analysis/Liveness.h"

namespace fsdp {

/// Checks that between a transfer's start and its wait nothing writes the bytes
/// that it reads, nor reads or writes those that it writes: these are the only
/// times at which other work may run beside it. `addresses` has one entry for
/// each storage, of the host's behind the device's (getCheckedAddress). Emits
/// an error at the first op that does, or at a start that is never waited for.
mlir::LogicalResult verifyTransferMemory(mlir::func::FuncOp program,
                                         const Liveness &liveness,
                                         llvm::ArrayRef<int64_t> addresses);

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_TRANSFERMEMORY_H
