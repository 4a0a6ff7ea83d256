//===- NamePatterns.h - Patterns of parameters' names -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_NAME_PATTERNS_H
#define FSDP_PASSES_ANALYSIS_NAME_PATTERNS_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"

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

/// Fails if a pattern of `rule` matches none of `buckets`. `what` they are:
/// "buckets to gather ahead".
mlir::LogicalResult verifyMatches(mlir::ModuleOp module, RuleAttr rule,
                                  const llvm::StringSet<> &buckets,
                                  llvm::StringRef what);

/// Names of the buckets that a module's parameters are in.
llvm::StringSet<> getBucketNames(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_NAME_PATTERNS_H
