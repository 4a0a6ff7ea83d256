//===- DivideGradients.cpp - By what gradients are divided, and where -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/GradientChains.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_DIVIDEGRADIENTS
#include "passes/Passes.h.inc"
} // namespace fsdp

/// The power of two near the divisor's root by which operands of a sum in f16
/// are divided, so that neither these vanish nor the sum overflows.
static double getPreDivisor(double divisor) {
  double pre = 1;
  while (std::fmod(divisor, pre) == 0 && divisor / pre > pre)
    pre *= 2;
  return pre;
}

namespace {

struct DivideGradients final
    : fsdp::impl::DivideGradientsBase<DivideGradients> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto told = getSetting<StepAttr>(module);
    forceSum = told.getForceSum();
    if (FloatAttr given = told.getDivideFactor()) {
      factor = given.getValueAsDouble();
      module->setAttr(kDivideFactorAttr, given);
    }
    contextRanks = getSetting<ParallelAttr>(module).getCp();
    StateTable states(module);
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    bool isAlone = mesh && getDataGroup(mesh).getSize() == 1;
    SmallVector<Chain> chains;
    for (func::FuncOp func : getPrograms(module)) {
      if (factor != 0 && factor != 1 && isAlone)
        reduceAlone(func, states);
      llvm::append_range(chains, getGradientChains(func));
    }
    if (int64_t grains = told.getGrains()) {
      for (Chain &chain : chains)
        divideTree(chain, grains);
      return;
    }
    if (told.getDivideInOptimizer() && leaveToOptimizer(module, states, chains))
      return;
    for (Chain &chain : chains)
      divide(chain);
  }

private:
  using Chain = SmallVector<ReductionOpInterface, 2>;

  /// Sums alone, if one number divides all that the optimizer reads: no
  /// gradient is a rank's own, and none lies in f16, whose sums overflow.
  bool leaveToOptimizer(ModuleOp module, const StateTable &states,
                        MutableArrayRef<Chain> chains) {
    if (chains.empty() || llvm::any_of(states.getStates(), [](StateOp state) {
          return state.getRole() == Role::Parameter &&
                 (state.isLocal() ||
                  state.getGlobalType().getElementType().isF16());
        }))
      return false;
    double divisor = getDivisor(chains.front());
    for (Chain &chain : chains) {
      Value gradient = chain.front()->getOperand(0);
      if (getElementTypeOrSelf(gradient.getType()).isF16() ||
          getDivisor(chain) != divisor)
        return false;
    }
    for (Chain &chain : chains)
      setAll(chain, Reduction::Sum);
    if (divisor != 1)
      module->setAttr(kOptimizerDivisorAttr,
                      Builder(&getContext()).getF64FloatAttr(divisor));
    return true;
  }

  double getDivisor(Chain &chain) const {
    if (factor != 0)
      return factor;
    int64_t ranks = 1;
    for (ReductionOpInterface op : chain)
      ranks *= op.getGroup().getSize();
    // Those of one batch have summands of its gradient.
    return double(ranks) / double(contextRanks);
  }

  /// One rank has nothing to reduce, but the user's factor divides all the
  /// same: by a sum over itself.
  static void reduceAlone(func::FuncOp func, const StateTable &states) {
    GroupAttr self = GroupAttr::get(
        func.getContext(), StringAttr::get(func.getContext(), "self"), 1, 1);
    OpBuilder builder(func.getBody().front().getTerminator());
    for (OpOperand &operand : builder.getInsertionPoint()->getOpOperands()) {
      auto of = func.getResultAttrOfType<FlatSymbolRefAttr>(
          operand.getOperandNumber(), kGradientAttr);
      StateOp state = states.lookup(of);
      if (!state || state.isLocal())
        continue;
      operand.set(AllReduceOp::create(builder, operand.get().getLoc(),
                                      operand.get().getType(), operand.get(),
                                      Reduction::Sum, self, of));
    }
  }

  /// A sum of all grains, which their number divides once.
  void divideTree(Chain &chain, int64_t grains) {
    setAll(chain, Reduction::Tree);
    chain.back().setPostAttr(asDivisor(double(grains)));
  }

  void divide(Chain &chain) {
    double divisor = getDivisor(chain);
    Type element = getElementTypeOrSelf(chain.front()->getOperand(0).getType());
    if (element.isF16()) {
      setAll(chain, Reduction::Sum);
      double pre = getPreDivisor(divisor);
      chain.front().setPreAttr(asDivisor(pre));
      chain.back().setPostAttr(asDivisor(divisor / pre));
    } else if (forceSum) {
      setAll(chain, Reduction::Sum);
      chain.back().setPostAttr(asDivisor(divisor));
    } else if (factor != 0 || contextRanks > 1) {
      setAll(chain, Reduction::Sum);
      if (divisor == chain.front().getGroup().getSize())
        chain.front().setReduction(Reduction::Avg);
      else
        chain.front().setPreAttr(asDivisor(divisor));
    }
  }

  static void setAll(Chain &chain, Reduction reduction) {
    for (ReductionOpInterface op : chain)
      op.setReduction(reduction);
  }

  /// Null for 1, which divides nothing.
  FloatAttr asDivisor(double divisor) {
    return divisor == 1 ? FloatAttr()
                        : Builder(&getContext()).getF64FloatAttr(divisor);
  }

  double factor = 0; ///< that sums are divided by; 0: the number of ranks
  bool forceSum = false;
  int64_t contextRanks = 1; ///< that have summands of one batch's gradient
};

} // namespace
