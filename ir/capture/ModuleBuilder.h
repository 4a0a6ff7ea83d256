//===- ModuleBuilder.h - A joint graph as a program -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_MODULEBUILDER_H
#define FSDP_IR_CAPTURE_MODULEBUILDER_H

#include "ir/capture/JointGraph.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fsdp::capture {

/// The module with the table of states and the captured "train/step", without
/// repeated computations. Throws Error (ModelNotSupported) for what the `aten`
/// dialect cannot express.
mlir::OwningOpRef<mlir::ModuleOp> buildModule(mlir::MLIRContext &context,
                                              const JointGraph &graph);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_MODULEBUILDER_H
