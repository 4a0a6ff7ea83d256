//===- TensorBuilders.cpp - Views and copies of tensors -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/TensorBuilders.h"

using namespace mlir;
using namespace fsdp;

Value fsdp::buildView(OpBuilder &builder, Location loc, Value source,
                      int64_t offset, RankedTensorType type) {
  return aten::buildAtenOp(
             builder, loc, "aten.as_strided", {source},
             {builder.getNamedAttr("size",
                                   builder.getI64ArrayAttr(type.getShape())),
              builder.getNamedAttr(
                  "stride", builder.getI64ArrayAttr(aten::getStrides(type))),
              builder.getNamedAttr("storage_offset",
                                   builder.getI64IntegerAttr(offset))},
             {type})
      ->getResult(0);
}

Value fsdp::buildContiguousCopy(OpBuilder &builder, Location loc,
                                Value source) {
  auto type = cast<RankedTensorType>(source.getType());
  return aten::buildAtenOp(
             builder, loc, "aten.clone", {source},
             {builder.getNamedAttr("memory_format",
                                   builder.getStringAttr("contiguous"))},
             {RankedTensorType::get(type.getShape(), type.getElementType())})
      ->getResult(0);
}

Value fsdp::buildScalarOp(OpBuilder &builder, Location loc, StringRef name,
                          ArrayRef<aten::TensorArgument> tensors,
                          ArrayRef<NamedAttribute> arguments, Type element) {
  return aten::buildAtenOp(builder, loc, name, tensors, arguments,
                           RankedTensorType::get({}, element))
      ->getResult(0);
}
