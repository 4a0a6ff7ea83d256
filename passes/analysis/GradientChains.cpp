//===- GradientChains.cpp - The reductions of gradients -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/GradientChains.h"

using namespace mlir;
using namespace fsdp;

FlatSymbolRefAttr fsdp::getGradientOf(Operation *op) {
  if (!op || !isa<ReduceScatterOp, AllReduceOp>(op))
    return {};
  return op->getAttrOfType<FlatSymbolRefAttr>("of");
}

SmallVector<SmallVector<Operation *, 2>>
fsdp::getGradientChains(func::FuncOp func) {
  SmallVector<SmallVector<Operation *, 2>> chains;
  llvm::DenseMap<Operation *, size_t> chainOf; ///< by its last reduction so far
  for (Operation &op : func.getBody().front()) {
    FlatSymbolRefAttr of = getGradientOf(&op);
    if (!of)
      continue;
    Operation *before = op.getOperand(0).getDefiningOp();
    auto it = chainOf.find(before);
    size_t chain = chains.size();
    if (it != chainOf.end() && getGradientOf(before) == of) {
      chain = it->second;
      chainOf.erase(it);
    } else {
      chains.emplace_back();
    }
    chains[chain].push_back(&op);
    chainOf[&op] = chain;
  }
  return chains;
}

template <typename OpTy>
static double getScaleOf(OpTy op) {
  double scale =
      op.getReduction() == Reduction::Avg ? 1 : op.getGroup().getSize();
  if (std::optional<APFloat> pre = op.getPre())
    scale /= pre->convertToDouble();
  if (std::optional<APFloat> post = op.getPost())
    scale /= post->convertToDouble();
  return scale;
}

double fsdp::getScale(Operation *reduction) {
  if (auto op = dyn_cast<ReduceScatterOp>(reduction))
    return getScaleOf(op);
  return getScaleOf(cast<AllReduceOp>(reduction));
}
