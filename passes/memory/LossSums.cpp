//===- LossSums.cpp - Sums over the chunks of a loss ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/memory/LossSums.h"

#include "ir/aten/Matchers.h"
#include "passes/analysis/Views.h"
#include "passes/memory/LossOperands.h"

using namespace mlir;
using namespace fsdp;

/// The type of the parameter's reduction that `value` is the gradient of,
/// through views, casts and sums; null if there is none.
Type LossSums::findReduceType(Value value) {
  SmallVector<Value> worklist{value};
  for (unsigned i = 0; i < worklist.size() && i < 16; ++i)
    for (OpOperand &use : worklist[i].getUses()) {
      Operation *user = use.getOwner();
      if (user->hasTrait<OpTrait::IsTerminator>()) {
        StateOp state =
            states.lookup(func.getResultAttrOfType<FlatSymbolRefAttr>(
                use.getOperandNumber(), kGradientAttr));
        if (state)
          return state.getReduceType();
      } else if (user->getNumResults() == 1 &&
                 (getViewSource(user->getResult(0)) || aten::isCast(user) ||
                  aten::isClone(user) || getName(user) == "aten.add.Tensor")) {
        worklist.push_back(user->getResult(0));
      }
    }
  return {};
}

Type LossSums::getType(Value value) {
  Type element = getTensor(value).getElementType();
  if (Type reduce = findReduceType(value))
    return isHalf(element) && reduce.isF32() ? reduce : element;
  return isHalf(element) ? Type(Float32Type::get(value.getContext())) : element;
}

void LossSums::add(Value value, Value part) {
  if (getTensor(part).getRank() == 0) {
    numbers[value].push_back(part);
    return;
  }
  Value &sum = sums[value];
  sum = sum ? ops.add(sum, part) : part;
}

void LossSums::addProduct(Value value, Value left, Value right) {
  RankedTensorType type = getTensor(value);
  Type element = getType(value);
  Value &sum = sums[value];
  if (sum && element == type.getElementType()) {
    sum = ops.make("aten.addmm", {sum, left, right}, {}, type);
    return;
  }
  Value part = ops.make("aten.mm", {left, right}, {}, type);
  sum = sum ? ops.add(sum, part) : ops.cast(part, element);
}

Value LossSums::get(Value value) {
  if (Value sum = sums.lookup(value))
    return sum;
  ArrayRef<Value> parts = numbers[value];
  Value sum = parts.front();
  for (Value part : parts.drop_front())
    sum = ops.add(sum, part);
  return sum;
}
