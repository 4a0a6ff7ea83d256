//===- Mode.h - Training or inference ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPILE_MODE_H
#define FSDP_TOOLS_FSDPOPT_COMPILE_MODE_H

#include "ir/capture/request/CaptureRequest.h"
#include "tools/fsdp-opt/config/Config.h"

#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// How a model is to be captured: as `mode` says; for training if the config
/// asks for an optimizer; else for what the model allows. `config` is null
/// without a config file.
CaptureMode getCaptureMode(const Config *config);

/// Whether `module` holds a program for inference.
bool isForInference(mlir::ModuleOp module);

/// Checks that a program that was captured earlier is of the mode that `config`
/// asks for. Throws fsdp::Error (ConfigBadValue).
void checkMode(mlir::ModuleOp module, const Config &config);

/// Notes for a captured program: that it is for inference though nobody said
/// so, and that it does what models do in training mode where its outputs alone
/// are asked for.
void addModeNotes(mlir::ModuleOp module, const Config *config);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPILE_MODE_H
