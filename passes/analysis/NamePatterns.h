//===- NamePatterns.h - Patterns of parameters' names -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_NAME_PATTERNS_H
#define FSDP_PASSES_ANALYSIS_NAME_PATTERNS_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace fsdp {

/// Whether one of `patterns`, an array of strings, matches `name`.
bool matchesAny(mlir::ArrayAttr patterns, llvm::StringRef name);

/// All names of a module's parameters, the further ones of tied ones too.
std::vector<std::string> getParameterNames(mlir::ModuleOp module);

/// "; did you mean 'weight'?" or "; there are fc1.weight, fc1.bias, …", for the
/// end of an error about a pattern that matches none of `names`.
std::string suggestNames(llvm::StringRef pattern,
                         llvm::ArrayRef<std::string> names);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_NAME_PATTERNS_H
