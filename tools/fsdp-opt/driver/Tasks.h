//===- Tasks.h - One function for each task ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a command line asks for has been checked. All of them make what they
// write before they write any of it, return the exit status, and throw
// fsdp::Error.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_DRIVER_TASKS_H
#define FSDP_TOOLS_FSDPOPT_DRIVER_TASKS_H

#include "tools/fsdp-opt/input/CommandLine.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

namespace fsdp {

// Task::Print and Task::Predict.
int printArtifactFile(const CommandLine &line);
int predictArtifact(const CommandLine &line);

/// Task::Opt: passes and options of MLIR on a program, as mlir-opt runs them;
/// 1 after a failure, which MLIR has described.
int runPasses(const CommandLine &line, mlir::DialectRegistry &registry);
/// Task::Capture: the same on a model's program.
int captureModel(const CommandLine &line, mlir::DialectRegistry &registry,
                 mlir::MLIRContext &context);

/// Task::Compile: model or captured program in, what the config asks for out.
int compileModel(const CommandLine &line, mlir::MLIRContext &context);

/// Task::ReadConfig: 2 where something of the file is refused.
int readConfigFile(const CommandLine &line);

// What several of them write.

/// "DIR/1-captured.mlir" and its like, if a folder was asked for.
void saveStage(const CommandLine &line, llvm::StringRef stage,
               mlir::ModuleOp module);
/// If it was asked for.
void writeMemoryMap(const CommandLine &line, mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_DRIVER_TASKS_H
