//===- WrapPolicies.h - Which modules form buckets --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_WRAP_POLICIES_H
#define FSDP_PASSES_ANALYSIS_WRAP_POLICIES_H

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/ModuleTree.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace fsdp {

/// Chooses modules of the tree, never the model itself, by the policy of
/// `buckets`. Fails after it has said why through `emitError`.
mlir::LogicalResult
chooseModules(const ModuleTree &tree, BucketsAttr buckets,
              llvm::SmallVectorImpl<unsigned> &chosen,
              llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_WRAP_POLICIES_H
