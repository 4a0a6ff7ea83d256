//===- WrapPolicies.h - Which modules form buckets --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_WRAP_POLICIES_H
#define FSDP_PASSES_ANALYSIS_WRAP_POLICIES_H

#include "passes/analysis/ModuleTree.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace fsdp {

struct WrapOptions {
  llvm::ArrayRef<std::string> classes; // policy `classes`
  int64_t minParams = 0;               // policy `size`
};

/// A rule that chooses modules of the tree, never the model itself. Fails after
/// it has said why through `emitError`.
struct WrapPolicy {
  using Choose = llvm::LogicalResult (*)(
      const ModuleTree &tree, const WrapOptions &options,
      llvm::SmallVectorImpl<unsigned> &chosen,
      llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

  llvm::StringLiteral name;
  Choose choose;
};

/// All policies; a new one is added here.
llvm::ArrayRef<WrapPolicy> getWrapPolicies();

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_WRAP_POLICIES_H
