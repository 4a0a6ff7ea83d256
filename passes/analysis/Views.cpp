//===- Views.cpp - Which values share storage -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Views.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;

Value fsdp::getViewSource(OpResult result) {
  if (auto alias = dyn_cast<AliasOpInterface>(result.getOwner()))
    return alias.getAliased();
  return aten::getViewSource(result);
}

bool fsdp::isView(Operation *op) {
  return op->getNumResults() == 1 && getViewSource(op->getResult(0));
}

Value fsdp::getReshapedSource(Value value) {
  auto result = dyn_cast<OpResult>(value);
  Value source = result ? getViewSource(result) : Value();
  if (!source || !isView(result.getOwner()))
    return {};
  auto from = cast<RankedTensorType>(source.getType());
  auto to = cast<RankedTensorType>(value.getType());
  bool isReshaped = aten::isContiguous(from) && aten::isContiguous(to) &&
                    from.getElementType() == to.getElementType() &&
                    from.getNumElements() == to.getNumElements();
  return isReshaped ? source : Value();
}

Views::Views(Block &block) {
  for (Operation &op : block)
    for (OpResult result : op.getResults())
      if (Value source = getViewSource(result))
        roots[result] = getRoot(source);
}
