//===- EmitArguments.h - Arguments of operator calls ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_EMITARGUMENTS_H
#define FSDP_PASSES_EMIT_EMITARGUMENTS_H

#include "plan/plan_generated.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fsdp {

/// All arguments of an `aten` op in the order of its schema, defaults spelled
/// out, so that the runtime knows nothing of schemas. `idOf` gives the plan's
/// value of an operand. Emits an error if the artifact cannot hold one.
mlir::LogicalResult
emitArguments(mlir::Operation *op,
              llvm::function_ref<int32_t(mlir::Value)> idOf,
              std::vector<std::unique_ptr<plan::ArgT>> &arguments);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_EMITARGUMENTS_H
