//===- EmitPlan.h - From a planned module to an artifact --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_EMITPLAN_H
#define FSDP_PASSES_EMIT_EMITPLAN_H

#include "runtime/plan/plan_generated.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// What the artifact states and the module does not.
struct EmitOptions {
  /// The model file as the artifact names it: relative to the artifact, or
  /// absolute. Empty: as `fsdp.model` names it.
  std::string modelPath;
  /// Likewise the files of `fsdp.weights`, in order.
  std::vector<std::string> weightsPaths;
  uint64_t seed = 0;
  double lr = 0;
  double maxGradNorm = -1; ///< negative: no clipping
  double normOrder = 2;
  plan::NonFinite onNonFinite = plan::NonFinite::stop;
  std::optional<plan::ScheduleT> schedule; ///< absent: constant
  /// Files as the artifact names them.
  std::optional<plan::DataT> data;
  std::optional<plan::ValidationT> validation;
  std::optional<plan::ArithmeticT> arithmetic; ///< absent: exactly
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
