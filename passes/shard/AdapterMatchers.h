//===- AdapterMatchers.h - Ops around an adapter's products -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_ADAPTERMATCHERS_H
#define FSDP_PASSES_SHARD_ADAPTERMATCHERS_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace fsdp::adapters {

/// A copy of floating-point numbers, rounded or laid out otherwise.
bool isCopy(mlir::Operation *op);

/// A view, or a copy, with the same elements in row-major order.
bool isReshape(mlir::Operation *op);

/// The factor by which `op` multiplies its first operand; nothing for others.
std::optional<double> getFactor(mlir::Operation *op);

/// What dropout drops elements of, if `op` is its last op: those that are kept
/// are divided by the share of them.
mlir::Value getDropped(mlir::Operation *op);

} // namespace fsdp::adapters

#endif // FSDP_PASSES_SHARD_ADAPTERMATCHERS_H
