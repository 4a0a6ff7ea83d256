//===- WholeOp.cpp - An operator before it is computed in parts -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/WholeOp.h"
#include "passes/analysis/Marks.h"

using namespace mlir;
using namespace fsdp;

WholeOp WholeOp::of(Operation *op, ArrayRef<RankedTensorType> operands) {
  WholeOp whole;
  whole.op = op;
  whole.operands.assign(operands.begin(), operands.end());
  for (OpResult result : op->getResults())
    whole.results.push_back(getTogetherType(result));
  whole.property = getTogetherProperty(op);
  return whole;
}

WholeOp WholeOp::ofCaptured(Operation *op) {
  return of(op, llvm::map_to_vector(op->getOperandTypes(), [](Type type) {
              return dyn_cast<RankedTensorType>(type);
            }));
}

Attribute WholeOp::getStatic(StringRef name) const {
  if (Attribute value = property.get(name))
    return isa<UnitAttr>(value) ? Attribute() : value;
  const aten::Argument *argument = aten::lookupSchema(op)->find(name);
  return argument ? argument->getDefault(op->getContext()) : Attribute();
}

std::optional<int64_t> WholeOp::getInt(StringRef name) const {
  auto number = dyn_cast_or_null<IntegerAttr>(getStatic(name));
  return number ? std::optional(number.getInt()) : std::nullopt;
}

std::optional<SmallVector<int64_t>> WholeOp::getInts(StringRef name) const {
  Attribute value = getStatic(name);
  if (auto number = dyn_cast_or_null<IntegerAttr>(value))
    return SmallVector<int64_t>{number.getInt()};
  auto list = dyn_cast_or_null<ArrayAttr>(value);
  if (!list)
    return std::nullopt;
  return llvm::map_to_vector(list.getAsRange<IntegerAttr>(),
                             [](IntegerAttr each) { return each.getInt(); });
}

std::optional<int64_t> WholeOp::getDim(StringRef name, int64_t rank) const {
  std::optional<int64_t> dim = getInt(name);
  if (dim && *dim < 0)
    *dim += rank;
  return dim;
}

std::optional<SmallVector<int64_t>> WholeOp::getDims(StringRef name,
                                                     int64_t rank) const {
  std::optional<SmallVector<int64_t>> dims = getInts(name);
  if (dims)
    for (int64_t &dim : *dims)
      dim = dim < 0 ? dim + rank : dim;
  return dims;
}

SmallVector<StringRef> WholeOp::getOperandNames() const {
  SmallVector<StringRef> names;
  for (const aten::BoundTensors &bound : aten::getTensorArguments(op))
    for (Value tensor : bound.tensors)
      if (tensor)
        names.push_back(bound.argument->name);
  return names;
}
