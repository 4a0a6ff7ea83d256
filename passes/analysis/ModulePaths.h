//===- ModulePaths.h - Names of modules within one another ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_MODULEPATHS_H
#define FSDP_PASSES_ANALYSIS_MODULEPATHS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace fsdp {

/// "layers.0.weight" -> "layers.0"; "weight" -> "".
llvm::StringRef getParentPath(llvm::StringRef path);

/// Of `path` and the modules around it, without the model, the innermost one
/// of which `holds` says so: of "layers.0.weight", "layers.0" and "layers". An
/// empty path is asked about, too.
std::optional<llvm::StringRef>
findAround(llvm::StringRef path,
           llvm::function_ref<bool(llvm::StringRef)> holds);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_MODULEPATHS_H
