//===- AttributeBuilder.cpp - LibTorch's values as attributes -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/module/AttributeBuilder.h"
#include "support/Error.h"

#include <complex>

using namespace mlir;
using namespace fsdp;

Type fsdp::capture::getElementType(mlir::Builder &builder,
                                   c10::ScalarType dtype) {
  // No kernel that is captured computes with eight bits.
  if (!c10::isFloat8Type(dtype))
    switch (dtype) {
#define FSDP_ELEMENT_TYPE(ENUMERATOR, NAME, BYTES, TORCH, PYTHON, NUMBER,      \
                          MLIR, MLIRTEXT, SAFETENSORS)                         \
  case c10::ScalarType::TORCH:                                                 \
    return MLIR;
#include "support/ElementTypes.def"
    default:
      break;
    }
  throw Error(ErrorId::ModelNotSupported,
              std::string("the model computes with tensors of dtype ") +
                  c10::toString(dtype) + ", which is not supported");
}

/// An int, float, complex number, bool or string by its own kind.
static Attribute getScalar(mlir::Builder &builder, const c10::IValue &value) {
  if (value.isBool())
    return builder.getBoolAttr(value.toBool());
  if (value.isInt())
    return builder.getI64IntegerAttr(value.toInt());
  if (value.isDouble())
    return builder.getF64FloatAttr(value.toDouble());
  if (value.isComplexDouble()) {
    c10::complex<double> number = value.toComplexDouble();
    return DenseElementsAttr::get(
        RankedTensorType::get({}, ComplexType::get(builder.getF64Type())),
        std::complex<double>(number));
  }
  if (value.isString())
    return builder.getStringAttr(value.toStringRef());
  throw Error(ErrorId::ModelNotSupported,
              "an operator has a static argument of kind " + value.tagKind() +
                  ", which is not supported");
}

static Attribute getMemoryFormat(mlir::Builder &builder, int64_t value) {
  switch (static_cast<c10::MemoryFormat>(value)) {
  case c10::MemoryFormat::Contiguous:
    return builder.getStringAttr("contiguous");
  case c10::MemoryFormat::Preserve:
    return builder.getStringAttr("preserve");
  case c10::MemoryFormat::ChannelsLast:
    return builder.getStringAttr("channels_last");
  case c10::MemoryFormat::ChannelsLast3d:
    return builder.getStringAttr("channels_last_3d");
  default:
    throw Error(ErrorId::ModelNotSupported,
                "an operator asks for a memory format that is not supported");
  }
}

Attribute fsdp::capture::getAttribute(mlir::Builder &builder,
                                      const aten::Argument &argument,
                                      const c10::IValue &value) {
  if (argument.isRuntimeChoice())
    return {};
  // None is no entry, except where the default is something else.
  if (value.isNone())
    return argument.getDefault(builder.getContext()) ? builder.getUnitAttr()
                                                     : Attribute();
  if (argument.kind == aten::Kind::DType)
    return TypeAttr::get(
        getElementType(builder, static_cast<c10::ScalarType>(value.toInt())));
  if (argument.kind == aten::Kind::MemoryFormat)
    return getMemoryFormat(builder, value.toInt());
  if (!value.isList())
    return getScalar(builder, value);
  SmallVector<Attribute> elements;
  for (const c10::IValue &element : value.toListRef())
    elements.push_back(getScalar(builder, element));
  return builder.getArrayAttr(elements);
}

ElementsAttr fsdp::capture::getElements(mlir::Builder &builder,
                                        const at::Tensor &tensor) {
  at::Tensor data = tensor.contiguous();
  auto type = RankedTensorType::get(
      data.sizes().vec(), getElementType(builder, data.scalar_type()));
  if (data.scalar_type() == c10::ScalarType::Bool)
    return DenseElementsAttr::get(
        type, ArrayRef<bool>(data.data_ptr<bool>(), data.numel()));
  return DenseElementsAttr::getFromRawBuffer(
      type, ArrayRef<char>(static_cast<const char *>(data.const_data_ptr()),
                           data.nbytes()));
}
