//===- OpModel.h - How MLIR handles an op of the aten dialect ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_ATEN_OP_MODEL_H
#define FSDP_IR_ATEN_OP_MODEL_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/OperationSupport.h"

#include <memory>

namespace fsdp::aten {

struct Schema;

/// The model of the op at `index` of the table, in the dialect's context.
std::unique_ptr<mlir::OperationName::Impl> makeOpModel(size_t index,
                                                       mlir::Dialect *dialect);

/// Static arguments, `segments` and `present` of an op: its one property.
mlir::DictionaryAttr getProperty(mlir::Operation *op);

/// The property's entry for the sizes of the tensor arguments, see Aten.h.
inline constexpr llvm::StringLiteral kSegments = "segments";
/// The property's entry for holes in a list of optional tensors, see Aten.h.
inline constexpr llvm::StringLiteral kPresent = "present";

mlir::ParseResult parseAtenOp(const Schema &schema, mlir::OpAsmParser &parser,
                              mlir::OperationState &state);
void printAtenOp(const Schema &schema, mlir::Operation *op,
                 mlir::OpAsmPrinter &printer);
mlir::LogicalResult verifyAtenOp(const Schema &schema, mlir::Operation *op);

/// The entries `segments` and `present` for tensor arguments of the given
/// sizes (-1: none) and members; what is implied is left out. Trailing nones
/// are dropped from `sizes`.
void appendSegments(mlir::MLIRContext *context,
                    llvm::SmallVectorImpl<int32_t> &sizes,
                    llvm::ArrayRef<bool> present,
                    mlir::NamedAttrList &property);

} // namespace fsdp::aten

#endif // FSDP_IR_ATEN_OP_MODEL_H
