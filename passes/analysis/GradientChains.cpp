//===- GradientChains.cpp - The reductions of gradients -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/GradientChains.h"

#include "ir/aten/Matchers.h"

#include "llvm/ADT/DenseMap.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

ReductionOpInterface fsdp::asGradientReduction(Operation *op) {
  auto reduction = dyn_cast_or_null<ReductionOpInterface>(op);
  bool isLogical = reduction && !isa<StartOpInterface>(op);
  return isLogical && reduction.getGradientOf(0) ? reduction
                                                 : ReductionOpInterface();
}

SmallVector<SmallVector<ReductionOpInterface, 2>>
fsdp::getGradientChains(func::FuncOp func) {
  SmallVector<SmallVector<ReductionOpInterface, 2>> chains;
  llvm::DenseMap<Operation *, size_t> chainOf; ///< by its last reduction so far
  for (Operation &op : func.getBody().front()) {
    ReductionOpInterface reduction = asGradientReduction(&op);
    if (!reduction)
      continue;
    Operation *before = op.getOperand(0).getDefiningOp();
    auto it = chainOf.find(before);
    size_t chain = chains.size();
    if (it != chainOf.end() && chains[it->second].back().getGradientOf(0) ==
                                   reduction.getGradientOf(0)) {
      chain = it->second;
      chainOf.erase(it);
    } else {
      chains.emplace_back();
    }
    chains[chain].push_back(reduction);
    chainOf[&op] = chain;
  }
  return chains;
}

Value fsdp::getReduced(Value operand, Type result) {
  Type element = getElementTypeOrSelf(result);
  if (getElementTypeOrSelf(operand.getType()) == element)
    return operand;
  Operation *narrowing = operand.getDefiningOp();
  bool narrows = isa_and_nonnull<EncodeOp>(narrowing) ||
                 (narrowing && aten::isPlainCast(narrowing));
  return narrows && getElementTypeOrSelf(narrowing->getOperand(0)) == element
             ? narrowing->getOperand(0)
             : Value();
}
