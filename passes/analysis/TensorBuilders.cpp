//===- TensorBuilders.cpp - Views and copies of tensors -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/TensorBuilders.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

#include <numeric>

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

Operation *fsdp::repeatOn(OpBuilder &builder, Operation *op, Value operand) {
  Operation *again = builder.clone(*op);
  again->setOperand(0, operand);
  return again;
}

SmallVector<int64_t> fsdp::getMemoryOrder(RankedTensorType type) {
  SmallVector<int64_t> strides = aten::getStrides(type);
  SmallVector<int64_t> order(type.getRank());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(
      order, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return order;
}

RankedTensorType fsdp::getDenseType(RankedTensorType like,
                                    ArrayRef<int64_t> shape) {
  if (!like.getEncoding())
    return aten::getTensorType(shape, aten::getContiguousStrides(shape),
                               like.getElementType());
  SmallVector<int64_t> strides(shape.size(), 1);
  int64_t next = 1;
  for (int64_t dim : llvm::reverse(getMemoryOrder(like))) {
    strides[dim] = next;
    next *= std::max<int64_t>(shape[dim], 1);
  }
  return aten::getTensorType(shape, strides, like.getElementType());
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
