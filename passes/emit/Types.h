//===- Types.h - Types and constants in the artifact's terms ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_TYPES_H
#define FSDP_PASSES_EMIT_TYPES_H

#include "plan/plan_generated.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace fsdp {

/// None for types that no tensor of a plan can have.
std::optional<plan::DType> toDType(mlir::Type elementType);
mlir::Type toType(plan::DType dtype, mlir::MLIRContext *context);

/// A number, or the elements of a constant, as LibTorch stores them,
/// contiguous; none if its kind is not supported.
std::optional<std::vector<uint8_t>> toBytes(mlir::Attribute value);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_TYPES_H
