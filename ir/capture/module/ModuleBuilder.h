//===- ModuleBuilder.h - A joint graph as a program -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_MODULE_MODULEBUILDER_H
#define FSDP_IR_CAPTURE_MODULE_MODULEBUILDER_H

#include "ir/capture/joint/JointGraph.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fsdp::capture {

/// A graph and what distinguishes it from others of the same model, "x.0=4";
/// empty if there is one only.
struct CapturedProgram {
  std::string label;
  JointGraph graph;
};

/// The module with the table of states and the captured "train/step", or
/// "train/step[x.0=4]" for each of several, without repeated computations.
/// Throws Error: ModelNotSupported for what the `aten` dialect cannot express,
/// InputNotKnown if the programs do not have the same states.
mlir::OwningOpRef<mlir::ModuleOp>
buildModule(mlir::MLIRContext &context,
            llvm::ArrayRef<CapturedProgram> programs);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_MODULE_MODULEBUILDER_H
