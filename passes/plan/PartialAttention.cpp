//===- PartialAttention.cpp - Attention in several calls ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/PartialAttention.h"

#include "ir/aten/Aten.h"
#include "ir/aten/OpModel.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

PartialAttention::PartialAttention(Operation *op, GroupAttr group)
    : op(op), group(group), ranks(group.getSize()), ops(op) {
  for (const aten::BoundTensors &bound : aten::getTensorArguments(op))
    for (Value tensor : bound.tensors)
      if (tensor)
        names.push_back(bound.argument->name);
  piece = getTensor(get("query")).getDimSize(kTokens) / 2;
}

Value PartialAttention::get(StringRef name) const {
  return op->getOperand(llvm::find(names, name) - names.begin());
}

Value PartialAttention::half(Value part, bool late) {
  return ops.slice(part, kTokens, late ? piece : 0, (late ? 2 : 1) * piece);
}

Value PartialAttention::chooseByHalf(double early, double late,
                                     ArrayRef<int64_t> halves, Type element) {
  auto type = RankedTensorType::get({2}, element);
  FloatAttr each[] = {FloatAttr::get(element, early),
                      FloatAttr::get(element, late)};
  SmallVector<Attribute> values(std::begin(each), std::end(each));
  Value both =
      ConstantOp::create(ops.get(), ops.getLoc(), type,
                         DenseElementsAttr::get(type, values), nullptr);
  return ops.selectRows(both, 0, halves, 1, group);
}

Operation *PartialAttention::call(ArrayRef<std::pair<StringRef, Value>> others,
                                  bool causal) {
  SmallVector<Value> operands(op->getOperands());
  int64_t keys = 0, queries = 0;
  for (auto [name, value] : others) {
    operands[llvm::find(names, name) - names.begin()] = value;
    int64_t tokens = getTensor(value).getDimSize(kTokens);
    if (name == "key")
      keys = tokens;
    if (name == "query")
      queries = tokens;
  }
  SmallVector<Type> types(op->getResultTypes());
  for (auto [i, type] : llvm::enumerate(types)) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    bool ofKeys = isBackward() && (i == 1 || i == 2);
    if (!tensor || i > (isBackward() ? 2u : 1u))
      continue;
    SmallVector<int64_t> shape(tensor.getShape());
    shape[kTokens] = ofKeys ? keys : queries;
    type = getDenseType(tensor, shape);
  }
  NamedAttrList statics(aten::getProperty(op));
  // What equals its default is left out.
  Attribute flag = ops.get().getBoolAttr(causal);
  statics.set("is_causal", flag);
  if (aten::lookupSchema(op)->find("is_causal")->getDefault(op->getContext()) ==
      flag)
    statics.erase("is_causal");
  if (statics.get("max_q"))
    statics.set("max_q", ops.get().getI64IntegerAttr(queries));
  if (statics.get("max_k"))
    statics.set("max_k", ops.get().getI64IntegerAttr(keys));
  return ops.remake(op, operands, types,
                    statics.getDictionary(op->getContext()));
}

Value fsdp::toType(TensorOps &ops, Value value, RankedTensorType type) {
  SmallVector<int64_t> order = getMemoryOrder(type);
  value = ops.cast(value, type.getElementType());
  if (!llvm::is_sorted(order))
    value = ops.copy(buildPermute(ops.get(), ops.getLoc(), value, order));
  return value.getType() == type
             ? value
             : buildView(ops.get(), ops.getLoc(), value, 0, type);
}

void PartialAttention::replace(ArrayRef<Value> results) {
  for (auto [old, result] : llvm::zip(op->getResults(), results))
    if (result)
      old.replaceAllUsesWith(result);
  op->erase();
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

PartialAttention::Partial PartialAttention::attend(Value query, Value key,
                                                   Value value, bool causal) {
  return toPartial(
      call({{"query", query}, {"key", key}, {"value", value}}, causal));
}

PartialAttention::Partial PartialAttention::toPartial(Operation *each) {
  Value sum = ops.copy(each->getResult(1));
  Type element = getElementTypeOrSelf(sum.getType());
  return {toElement(each->getResult(0), element), sum};
}

Value PartialAttention::scale(Value output, Value sum, Value all) {
  RankedTensorType type = getTensor(sum);
  Value share = ops.make(
      "aten.exp", {ops.make("aten.sub.Tensor", {sum, all}, {}, getTensor(all))},
      {}, getTensor(all));
  // cuDNN's has a dim of its own for the features.
  SmallVector<int64_t> shape(type.getShape());
  if (type.getRank() == 3)
    shape.push_back(1);
  return ops.make("aten.mul.Tensor", {output, ops.view(share, shape)}, {},
                  RankedTensorType::get(getTensor(output).getShape(),
                                        getElementTypeOrSelf(output)));
}

PartialAttention::Partial PartialAttention::merge(Partial a, Partial b) {
  RankedTensorType type = RankedTensorType::get(getTensor(a.sum).getShape(),
                                                getElementTypeOrSelf(a.sum));
  Value all = ops.make("aten.logaddexp", {a.sum, b.sum}, {}, type);
  return {ops.add(scale(a.output, a.sum, all), scale(b.output, b.sum, all)),
          all};
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

PartialAttention::Gradients PartialAttention::toGradients(Operation *each) {
  auto result = [&](unsigned i) {
    return toElement(each->getResult(i), getSumType());
  };
  return {result(0), result(1), result(2)};
}

Type PartialAttention::getSumType() const {
  Type own = getElementTypeOrSelf(op->getResult(0).getType());
  return own.getIntOrFloatBitWidth() < 32
             ? Type(Float32Type::get(op->getContext()))
             : own;
}

SmallVector<StringRef> PartialAttention::listOfQueries() const {
  SmallVector<StringRef> found;
  for (StringRef name : names)
    if (llvm::is_contained(
            {"query", "grad_out", "grad_out_", "out", "logsumexp"}, name))
      found.push_back(name);
  return found;
}

Value PartialAttention::zeros(Value like, int64_t tokens) {
  RankedTensorType type = getTensor(like);
  SmallVector<int64_t> shape(type.getShape());
  shape[kTokens] = tokens;
  return ops.fill(ops.get().getF64FloatAttr(0), shape, type.getElementType());
}
