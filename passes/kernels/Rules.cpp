//===- Rules.cpp - What operators do to an element ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Rules.h"

#include "ir/aten/Aten.h"
#include "passes/kernels/Updates.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

const KernelRule *fsdp::findKernelRule(Operation *op) {
  if (auto update = dyn_cast<UpdateOp>(op))
    return update.getRates().empty() ? nullptr : &getUpdateRule();
  const aten::Schema *schema = aten::lookupSchema(op);
  if (!schema || schema->writes())
    return nullptr;
  static const llvm::StringMap<const KernelRule *> rules = [] {
    llvm::StringMap<const KernelRule *> all;
    for (ArrayRef<KernelRule> family :
         {getArithmeticRules(), getComparisonRules(), getActivationRules(),
          getCastRules(), getColumnRules(), getReductionRules(),
          getSoftmaxRules(), getNormRules(), getLossRules()})
      for (const KernelRule &rule : family)
        all[rule.name] = &rule;
    return all;
  }();
  StringRef name = op->getName().getStringRef();
  name.consume_front("aten.");
  return rules.lookup(name.take_until([](char c) { return c == '.'; }));
}

ArrayRef<int64_t> fsdp::shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

int64_t fsdp::countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

std::optional<int64_t> fsdp::getInteger(Operation *op, StringRef name) {
  auto value = dyn_cast_or_null<IntegerAttr>(aten::getStaticArgument(op, name));
  return value ? std::optional(value.getInt()) : std::nullopt;
}

SmallVector<int64_t> fsdp::getIntegers(Operation *op, StringRef name) {
  Attribute value = aten::getStaticArgument(op, name);
  if (auto one = dyn_cast_or_null<IntegerAttr>(value))
    return {one.getInt()};
  SmallVector<int64_t> all;
  if (auto list = dyn_cast_or_null<ArrayAttr>(value))
    for (auto each : list.getAsRange<IntegerAttr>())
      all.push_back(each.getInt());
  return all;
}

int64_t fsdp::fromFront(int64_t dim, size_t rank) {
  return dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
}

FailureOr<KernelFrame> fsdp::framePointwise(Operation *op) {
  if (!llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return failure(); // nobody asked for one of them
  KernelFrame frame;
  frame.shape = KernelShape(shapeOf(op->getResult(0)));
  for (Value result : op->getResults())
    if (shapeOf(result) != ArrayRef(frame.shape))
      return failure();
  frame.operands.assign(op->getNumOperands(), frame.shape);
  frame.isRowSum.assign(op->getNumResults(), false);
  return frame;
}

FailureOr<KernelFrame> fsdp::frameLastDim(Operation *op) {
  FailureOr<KernelFrame> frame = framePointwise(op);
  if (failed(frame) || frame->shape.empty() ||
      fromFront(getInteger(op, "dim").value_or(-1), frame->shape.size()) + 1 !=
          static_cast<int64_t>(frame->shape.size()))
    return failure();
  frame->columns = frame->shape.back();
  return frame;
}

Term fsdp::sumColumns(KernelCall &call, Term term) {
  return apply(KernelOpKind::sum_columns,
               call.builder.spread(term, call.columns));
}

Term fsdp::maxColumns(KernelCall &call, Term term) {
  return apply(KernelOpKind::max_columns,
               call.builder.spread(term, call.columns));
}
