//===- EmitProgram.h - From a program to its instructions -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_EMITPROGRAM_H
#define FSDP_PASSES_EMIT_EMITPROGRAM_H

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/States.h"
#include "plan/plan_generated.h"

namespace fsdp {

/// Tables of the plan that its programs share, filled on demand.
class EmitContext {
public:
  explicit EmitContext(plan::PlanT &plan) : plan(plan) {}

  uint32_t getGroup(GroupAttr group);
  uint32_t getOperator(mlir::OperationName name);
  /// -1 for an unknown location.
  int32_t getLocation(mlir::Location location);
  /// Inputs of one name have an entry for each type that programs give them.
  int32_t getInput(llvm::StringRef name, plan::DType dtype,
                   mlir::RankedTensorType type, RecordAttr sample);
  /// Equal programs are one.
  uint32_t getKernel(plan::KernelProgramT program);

  plan::PlanT &plan;

private:
  llvm::DenseMap<mlir::Attribute, uint32_t> groups;
  llvm::DenseMap<mlir::OperationName, uint32_t> operators;
  llvm::DenseMap<mlir::Location, int32_t> locations;
  llvm::StringMap<uint32_t> kernels; ///< by their bytes
};

std::unique_ptr<plan::RecordT> emitRecord(RecordAttr record);

/// Appends `program` to the plan, whose states have been emitted.
mlir::LogicalResult emitProgram(mlir::func::FuncOp program,
                                const StateTable &states, EmitContext &context);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_EMITPROGRAM_H
