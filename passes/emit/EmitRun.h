//===- EmitRun.h - What the artifact tells the run --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_EMITRUN_H
#define FSDP_PASSES_EMIT_EMITRUN_H

#include "passes/analysis/States.h"
#include "passes/emit/EmitPlan.h"

namespace fsdp {

/// Fills `plan`'s training, data, validation and arithmetic from the module's
/// attributes (RunAttributes.td).
void emitRun(mlir::ModuleOp module, const StateTable &table,
             const EmitOptions &options, plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_EMITRUN_H
