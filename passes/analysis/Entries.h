//===- Entries.h - Programs of one step -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A module may hold several programs over one table of states: parts of a step,
// and programs that do the same at different shapes of the inputs.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ANALYSIS_ENTRIES_H
#define FSDP_PASSES_ANALYSIS_ENTRIES_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// What `program` does of a step.
inline StepPart getStepPart(mlir::func::FuncOp program) {
  return getProgram(program).getPart();
}

/// Whether parameters are updated there, if it is a program to train.
inline bool endsStep(mlir::func::FuncOp program) {
  StepPart part = getStepPart(program);
  return part == StepPart::Whole || part == StepPart::Last;
}

/// What was captured and `program` was made of: a whole step.
inline ProgramAttr getCaptured(mlir::func::FuncOp program) {
  return getProgram(program).withPart(StepPart::Whole);
}

/// The states whose gradients the program returns, in their order.
llvm::SmallVector<mlir::StringAttr>
getDifferentiated(mlir::func::FuncOp program);

/// Programs of one part of a step must train the same parameters, since they
/// share the optimizer's states. Emits an error that names the first that only
/// one has.
mlir::LogicalResult
verifySameGradients(llvm::ArrayRef<mlir::func::FuncOp> programs);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_ENTRIES_H
