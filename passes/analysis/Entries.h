//===- Entries.h - Programs of one entry ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A module may hold several programs over one table of states. What a run asks
// for is an entry, "train/step"; programs of one entry do the same at different
// shapes of the inputs: "train/step[x.0=4]", "train/step[x.0=8]".
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ANALYSIS_ENTRIES_H
#define FSDP_PASSES_ANALYSIS_ENTRIES_H

#include "passes/analysis/Programs.h"

namespace fsdp {

/// "train/step" of the program "train/step[x.0=4]".
llvm::StringRef getEntry(mlir::func::FuncOp program);

/// "reference/step[x.0=4]" of the program "train/step[x.0=4]".
std::string getReferenceName(mlir::func::FuncOp program);

/// The states whose gradients the program returns, in their order.
llvm::SmallVector<mlir::StringAttr>
getDifferentiated(mlir::func::FuncOp program);

/// Programs of one entry must train the same parameters, since they share the
/// optimizer's states. Emits an error that names the first that only one has.
mlir::LogicalResult
verifySameGradients(llvm::ArrayRef<mlir::func::FuncOp> programs);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_ENTRIES_H
