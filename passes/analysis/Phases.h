//===- Phases.h - Forward, backward, optimizer ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_PHASES_H
#define FSDP_PASSES_ANALYSIS_PHASES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallVector.h"

namespace fsdp {

/// The ops with numbers begin <= n < end of a program. Inputs are there at -1.
struct Phase {
  llvm::StringLiteral name; ///< forward, backward, optimizer
  int64_t begin, end;
};

/// In order, without gaps. Programs for inference are forward only;
/// micro-batches but the last have no optimizer.
llvm::SmallVector<Phase, 3> getPhases(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_PHASES_H
