//===- Programs.h - Functions of a module -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_PROGRAMS_H
#define FSDP_PASSES_ANALYSIS_PROGRAMS_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Whether others are compared with it: no pass changes it.
bool isReference(mlir::func::FuncOp func);
/// Whether it only computes outputs: it has neither gradients nor an optimizer,
/// and no loss but as one of the outputs. For validation as well.
bool isInference(mlir::func::FuncOp func);
/// Whether it stands beside a program that trains, whose loss it computes and
/// whose states it leaves alone.
bool isValidation(mlir::func::FuncOp func);

/// The functions with a body that are no references.
llvm::SmallVector<mlir::func::FuncOp> getPrograms(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_PROGRAMS_H
