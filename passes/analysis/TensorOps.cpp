//===- TensorOps.cpp - Operators one behind the other ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/TensorOps.h"

using namespace mlir;
using namespace fsdp;

SmallVector<int64_t> fsdp::splitBlocks(ArrayRef<int64_t> shape, int64_t dim,
                                       int64_t blocks) {
  SmallVector<int64_t> split(shape);
  if (blocks == 1)
    return split;
  split[dim] /= blocks;
  split.insert(split.begin() + dim, blocks);
  return split;
}

Value TensorOps::make(StringRef name, ArrayRef<aten::TensorArgument> tensors,
                      ArrayRef<NamedAttribute> arguments,
                      RankedTensorType type) {
  return aten::buildAtenOp(builder, loc, name, tensors, arguments, type)
      ->getResult(0);
}

Operation *TensorOps::remake(Operation *op, ValueRange operands,
                             TypeRange types, Attribute arguments) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(types);
  state.propertiesAttr = arguments ? arguments : op->getPropertiesAsAttribute();
  return builder.create(state);
}

Value TensorOps::view(Value value, ArrayRef<int64_t> shape) {
  RankedTensorType from = getTensor(value);
  if (from.getShape() == shape && !from.getEncoding())
    return value;
  return make("aten.view", {value}, integers("size", shape),
              RankedTensorType::get(shape, from.getElementType()));
}

Value TensorOps::copy(Value value) {
  return getTensor(value).getEncoding()
             ? buildContiguousCopy(builder, loc, value)
             : value;
}

Value TensorOps::slice(Value value, int64_t dim, int64_t start, int64_t end) {
  RankedTensorType from = getTensor(value);
  SmallVector<int64_t> shape(from.getShape());
  shape[dim] = end - start;
  return make(
      "aten.slice.Tensor", {value},
      {integer("dim", dim), integer("start", start), integer("end", end)},
      aten::getTensorType(shape, aten::getStrides(from),
                          from.getElementType()));
}

Value TensorOps::select(Value value, int64_t dim, int64_t index) {
  RankedTensorType from = getTensor(value);
  SmallVector<int64_t> shape(from.getShape()), strides = aten::getStrides(from);
  shape.erase(shape.begin() + dim);
  strides.erase(strides.begin() + dim);
  return make("aten.select.int", {value},
              {integer("dim", dim), integer("index", index)},
              aten::getTensorType(shape, strides, from.getElementType()));
}

Value TensorOps::flip(Value value, int64_t dim) {
  RankedTensorType from = getTensor(value);
  return make("aten.flip", {value}, integers("dims", {dim}),
              RankedTensorType::get(from.getShape(), from.getElementType()));
}

Value TensorOps::stack(ArrayRef<Value> values, int64_t dim) {
  RankedTensorType each = getTensor(values.front());
  SmallVector<int64_t> shape(each.getShape());
  shape.insert(shape.begin() + dim, values.size());
  return make("aten.stack", {aten::TensorArgument(values)}, integer("dim", dim),
              RankedTensorType::get(shape, each.getElementType()));
}

Value TensorOps::expand(Value value, ArrayRef<int64_t> shape) {
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

Value TensorOps::transpose(Value value) {
  RankedTensorType from = getTensor(value);
  SmallVector<int64_t> shape(llvm::reverse(from.getShape()));
  SmallVector<int64_t> strides(llvm::reverse(aten::getStrides(from)));
  return make("aten.t", {value}, {},
              aten::getTensorType(shape, strides, from.getElementType()));
}

Value TensorOps::cast(Value value, Type element) {
  RankedTensorType from = getTensor(value);
  if (from.getElementType() == element)
    return value;
  return make("aten._to_copy", {value}, type(element),
              RankedTensorType::get(from.getShape(), element));
}

Value TensorOps::add(Value a, Value b) {
  return make("aten.add.Tensor", {a, b}, {}, getTensor(a));
}

Value TensorOps::fill(Attribute value, ArrayRef<int64_t> shape, Type element) {
  return make("aten.full", {},
              {integers("size", shape),
               builder.getNamedAttr("fill_value", value), type(element)},
              RankedTensorType::get(shape, element));
}

Value TensorOps::cat(ArrayRef<Value> values, int64_t dim) {
  RankedTensorType first = getTensor(values.front());
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (Value value : values)
    shape[dim] += getTensor(value).getDimSize(dim);
  return make("aten.cat", {aten::TensorArgument(values)}, integer("dim", dim),
              RankedTensorType::get(shape, first.getElementType()));
}

Value TensorOps::selectRows(Value value, int64_t dim, ArrayRef<int64_t> starts,
                            int64_t length, GroupAttr group) {
  RankedTensorType from = getTensor(value);
  SmallVector<int64_t> shape(from.getShape());
  shape[dim] = length;
  return SelectRowsOp::create(
      builder, loc, RankedTensorType::get(shape, from.getElementType()), value,
      dim, starts, group);
}

Value TensorOps::divide(Value a, Value b) {
  return make("aten.div.Tensor", {a, b}, {}, getTensor(a));
}
