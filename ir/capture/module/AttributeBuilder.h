//===- AttributeBuilder.h - LibTorch's values as attributes -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_MODULE_ATTRIBUTEBUILDER_H
#define FSDP_IR_CAPTURE_MODULE_ATTRIBUTEBUILDER_H

#include "ir/aten/Schema.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace fsdp::capture {

/// Throws Error (ModelNotSupported) for dtypes that programs do not have.
mlir::Type getElementType(mlir::Builder &builder, c10::ScalarType dtype);

/// `value` as the dialect writes it; null if the argument is None or the
/// runtime's choice.
mlir::Attribute getAttribute(mlir::Builder &builder,
                             const aten::Argument &argument,
                             const c10::IValue &value);

/// The elements of a tensor on the CPU.
mlir::ElementsAttr getElements(mlir::Builder &builder,
                               const at::Tensor &tensor);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_MODULE_ATTRIBUTEBUILDER_H
