//===- Pipelines.h - The stages of the compiler -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each stage is a named pipeline. The tool and the library build the same ones;
// what their passes do differently from module to module stands on the module.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PIPELINES_H
#define FSDP_PASSES_PIPELINES_H

#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"

namespace fsdp {

/// Captured program -> sharded program beside its reference.
void buildShardPipeline(mlir::OpPassManager &manager);

/// Sharded program beside its reference -> scheduled program.
void buildSchedulePipeline(mlir::OpPassManager &manager);

/// Scheduled program -> planned program.
void buildPlanPipeline(mlir::OpPassManager &manager);

/// All stages: captured program -> planned program.
void buildPipeline(mlir::OpPassManager &manager);

/// Makes the pipelines known by name: `fsdp-shard-pipeline`,
/// `fsdp-schedule-pipeline`, `fsdp-plan-pipeline` and `fsdp-pipeline`. Call
/// once a process.
void registerPipelines();

} // namespace fsdp

#endif // FSDP_PASSES_PIPELINES_H
