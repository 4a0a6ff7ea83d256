//===- LossOps.cpp - Ops of which chunks of a loss are made ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/memory/LossOps.h"

using namespace mlir;
using namespace fsdp;

Value LossOps::make(StringRef name, ArrayRef<aten::TensorArgument> tensors,
                    ArrayRef<NamedAttribute> arguments, RankedTensorType type) {
  return aten::buildAtenOp(builder, loc, name, tensors, arguments, type)
      ->getResult(0);
}

Operation *LossOps::remake(Operation *op, ValueRange operands, TypeRange types,
                           Attribute arguments) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(types);
  state.propertiesAttr = arguments ? arguments : op->getPropertiesAsAttribute();
  return builder.create(state);
}

Value LossOps::view(Value value, ArrayRef<int64_t> shape) {
  RankedTensorType from = getTensor(value);
  if (from.getShape() == shape && !from.getEncoding())
    return value;
  return make("aten.view", {value}, integers("size", shape),
              RankedTensorType::get(shape, from.getElementType()));
}

Value LossOps::copy(Value value) {
  return getTensor(value).getEncoding()
             ? buildContiguousCopy(builder, loc, value)
             : value;
}

Value LossOps::slice(Value value, int64_t dim, int64_t start, int64_t end) {
  RankedTensorType from = getTensor(value);
  SmallVector<int64_t> shape(from.getShape());
  shape[dim] = end - start;
  return make(
      "aten.slice.Tensor", {value},
      {integer("dim", dim), integer("start", start), integer("end", end)},
      aten::getTensorType(shape, aten::getStrides(from),
                          from.getElementType()));
}

Value LossOps::expand(Value value, ArrayRef<int64_t> shape) {
  RankedTensorType from = getTensor(value);
  SmallVector<int64_t> own = aten::getStrides(from);
  SmallVector<int64_t> strides(shape.size(), 0);
  size_t added = shape.size() - own.size();
  for (auto [i, stride] : llvm::enumerate(own))
    if (from.getDimSize(i) == shape[added + i])
      strides[added + i] = stride;
  return make("aten.expand", {value}, integers("size", shape),
              aten::getTensorType(shape, strides, from.getElementType()));
}

Value LossOps::transpose(Value value) {
  RankedTensorType from = getTensor(value);
  SmallVector<int64_t> shape(llvm::reverse(from.getShape()));
  SmallVector<int64_t> strides(llvm::reverse(aten::getStrides(from)));
  return make("aten.t", {value}, {},
              aten::getTensorType(shape, strides, from.getElementType()));
}

Value LossOps::cast(Value value, Type element) {
  RankedTensorType from = getTensor(value);
  if (from.getElementType() == element)
    return value;
  return make("aten._to_copy", {value}, type(element),
              RankedTensorType::get(from.getShape(), element));
}

Value LossOps::add(Value a, Value b) {
  return make("aten.add.Tensor", {a, b}, {}, getTensor(a));
}

Value LossOps::fill(Operation *op, ArrayRef<int64_t> shape, Type element) {
  NamedAttribute value = builder.getNamedAttr("fill_value", *getFill(op));
  return make("aten.full", {}, {integers("size", shape), value, type(element)},
              RankedTensorType::get(shape, element));
}

Value LossOps::divide(Value a, Value b) {
  return make("aten.div.Tensor", {a, b}, {}, getTensor(a));
}
