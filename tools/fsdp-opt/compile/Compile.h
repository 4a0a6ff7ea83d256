//===- Compile.h - From a captured program to a planned one -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPILE_COMPILE_H
#define FSDP_TOOLS_FSDPOPT_COMPILE_COMPILE_H

#include "tools/fsdp-opt/config/Config.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

namespace fsdp {

/// Called with the name under which a stage's program is saved ("2-sharded")
/// and the program.
using StageObserver = llvm::function_ref<void(llvm::StringRef, mlir::ModuleOp)>;

/// Runs all stages on the captured program, in place. The stages are the named
/// pipelines (`--fsdp-shard-pipeline` …). Throws fsdp::Error (StageRefused)
/// that names the stage and the pass and holds their diagnostics.
void compileProgram(mlir::ModuleOp module, const Config &config,
                    StageObserver observer);

/// Writes on each state in which bucket the config puts it, and does nothing
/// else. Throws Error.
void assignBuckets(mlir::ModuleOp module, const Config &config);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPILE_COMPILE_H
