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

/// "reference/step[x.0=4]" of the program "train/step[x.0=4]" and of the parts
/// of such a step; "reference/eval/step[x.0=4]" of "eval/step[x.0=4]", which
/// stands beside it.
std::string getReferenceName(mlir::func::FuncOp program);

/// What a training program does of a step. A step of several micro-batches is
/// "train/first", "train/middle" once for each but the first and the last, and
/// "train/last"; one of a single micro-batch is "train/step".
enum class StepPart { Whole, First, Middle, Last };

StepPart getStepPart(mlir::func::FuncOp program);

/// Whether parameters are updated there, if it is a program to train.
inline bool endsStep(mlir::func::FuncOp program) {
  StepPart part = getStepPart(program);
  return part == StepPart::Whole || part == StepPart::Last;
}

/// "train/last[x.0=4]" of the program "train/step[x.0=4]".
std::string getPartName(mlir::func::FuncOp program, StepPart part);

/// "train/step[x.0=4]", what was captured, of the program "train/last[x.0=4]".
std::string getCapturedName(mlir::func::FuncOp program);

/// "eval/step[x.0=4]" of the program "train/step[x.0=4]".
std::string getValidationName(mlir::func::FuncOp program);

/// The states whose gradients the program returns, in their order.
llvm::SmallVector<mlir::StringAttr>
getDifferentiated(mlir::func::FuncOp program);

/// Programs of one entry must train the same parameters, since they share the
/// optimizer's states. Emits an error that names the first that only one has.
mlir::LogicalResult
verifySameGradients(llvm::ArrayRef<mlir::func::FuncOp> programs);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_ENTRIES_H
