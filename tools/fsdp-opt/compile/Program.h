//===- Program.h - Programs from and to files -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPILE_PROGRAM_H
#define FSDP_TOOLS_FSDPOPT_COMPILE_PROGRAM_H

#include "tools/fsdp-opt/input/CommandLine.h"

#include "tools/fsdp-opt/config/Config.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fsdp {

/// The captured program of a model file, or the program that an IR file holds.
/// `config` says how and for what a model is captured; null: to be trained on a
/// CPU. `outputs`, if not null, gets all that it returns. Throws fsdp::Error,
/// also if an IR file's program was captured for something else.
mlir::OwningOpRef<mlir::ModuleOp>
readProgram(mlir::MLIRContext &context, const CommandLine &line,
            const Config *config,
            std::vector<OutputSummary> *outputs = nullptr);

/// The same for a config that was read: both fit, and people are told what is
/// to be known of them.
mlir::OwningOpRef<mlir::ModuleOp> readProgramFor(mlir::MLIRContext &context,
                                                 const CommandLine &line,
                                                 const LoadedConfig &loaded);

/// What capture is told.
CaptureOptions getCaptureOptions(const CommandLine &line, const Config *config);

/// The program as text or bytecode. Text that is not only to be read keeps
/// module paths and source lines, as bytecode does (`locations`).
std::string printProgram(mlir::ModuleOp module, OutputKind kind,
                         bool locations = false);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPILE_PROGRAM_H
