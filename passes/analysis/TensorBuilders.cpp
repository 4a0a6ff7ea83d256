//===- TensorBuilders.cpp - Views and copies of tensors -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/TensorBuilders.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

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

RankedTensorType fsdp::getPermutedType(RankedTensorType type,
                                       ArrayRef<int64_t> order) {
  return aten::getTensorType(applyPermutation(type.getShape(), order),
                             applyPermutation(aten::getStrides(type), order),
                             type.getElementType());
}

Value fsdp::buildPermute(OpBuilder &builder, Location loc, Value source,
                         ArrayRef<int64_t> order) {
  return aten::buildAtenOp(
             builder, loc, "aten.permute", {source},
             {builder.getNamedAttr("dims", builder.getI64ArrayAttr(order))},
             {getPermutedType(cast<RankedTensorType>(source.getType()), order)})
      ->getResult(0);
}

Value fsdp::buildScalarOp(OpBuilder &builder, Location loc, StringRef name,
                          ArrayRef<aten::TensorArgument> tensors,
                          ArrayRef<NamedAttribute> arguments, Type element) {
  return aten::buildAtenOp(builder, loc, name, tensors, arguments,
                           RankedTensorType::get({}, element))
      ->getResult(0);
}
