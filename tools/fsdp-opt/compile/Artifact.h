//===- Artifact.h - What a planned program becomes --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPILE_ARTIFACT_H
#define FSDP_TOOLS_FSDPOPT_COMPILE_ARTIFACT_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace fsdp {

/// For a planned program that was read from a file, which may hold anything:
/// throws fsdp::Error (NoArtifact) if its addresses are not valid.
void verifyAddresses(mlir::ModuleOp module);

/// The bytes of the artifact that is written to `output`: it names its files
/// relative to its own folder, and has its kernels' code for the targets of
/// `code`. All else stands in `module`. Throws fsdp::Error (NoArtifact) if
/// `module` was not planned, (KernelsUnusable) if code cannot be made.
std::string makeArtifact(mlir::ModuleOp module, const std::string &output,
                         llvm::ArrayRef<std::string> code = {});

/// Collectives, memory and ops of the planned program as JSON (--report).
std::string makeReport(mlir::ModuleOp module);

/// A picture of the planned program's arena as a page of HTML (--memory-map),
/// with `title` above it. Throws fsdp::Error (NoArtifact) if `module` was not
/// planned.
std::string makeMemoryMap(mlir::ModuleOp module, const std::string &title);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPILE_ARTIFACT_H
