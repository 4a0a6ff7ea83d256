//===- Program.h - The program of a group of operators ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_PROGRAM_H
#define FSDP_PASSES_KERNELS_PROGRAM_H

#include "plan/plan_generated.h"

#include "mlir/IR/Operation.h"

#include <optional>
#include <string>

namespace fsdp {

struct KernelOfOps {
  plan::KernelProgramT program; ///< sound (plan/Kernels.h)
  /// One for each operand that is read, in their order, without twins.
  llvm::SmallVector<mlir::Value> inputs;
};

/// The program that computes `results` from what is made outside of `ops`,
/// which are operators in their order and the views between them. One written
/// operand for each result, in this order; none of them is a view. Nothing if
/// no program says it; `why` is in words for people.
std::optional<KernelOfOps> buildKernel(llvm::ArrayRef<mlir::Operation *> ops,
                                       llvm::ArrayRef<mlir::Value> results,
                                       std::string *why = nullptr);

/// Whether kernels know the operator, by its name, types and arguments.
bool isKernelOp(mlir::Operation *op);
/// "silu+mul": operators of a group, each once, of many the first ones; updates
/// go before others.
std::string nameKernel(llvm::ArrayRef<mlir::Operation *> ops);
/// Whether it is a view that costs nothing inside of a kernel.
bool isKernelView(mlir::Operation *op);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_PROGRAM_H
