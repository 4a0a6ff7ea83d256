//===- EmitPlan.h - From a planned module to an artifact --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_EMITPLAN_H
#define FSDP_PASSES_EMIT_EMITPLAN_H

#include "plan/plan_generated.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <string>

namespace fsdp {

/// How the artifact names files that the module names relative to the folder in
/// which fsdp-opt runs. All else stands in the module.
struct EmitOptions {
  using Naming = std::function<std::string(llvm::StringRef)>;
  /// Files that were read: the model's, those of weights.
  Naming nameFile = [](llvm::StringRef path) { return path.str(); };
  /// Patterns of files that may not be there yet.
  Naming namePattern = [](llvm::StringRef pattern) { return pattern.str(); };
  /// What the artifact holds beside what the module says of it.
  std::function<void(plan::PlanT &)> complete = [](plan::PlanT &) {};
};

/// Translates a module that passed `fsdp-verify-planned`. Emits an error at the
/// op that cannot be translated.
mlir::LogicalResult emitPlan(mlir::ModuleOp module, const EmitOptions &options,
                             plan::PlanT &plan);

/// The artifact's bytes, for writeFileAtomically. Emits an error as `emitPlan`,
/// or if the plan does not verify.
mlir::FailureOr<std::string> emitArtifact(mlir::ModuleOp module,
                                          const EmitOptions &options);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_EMITPLAN_H
