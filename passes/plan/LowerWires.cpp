//===- LowerWires.cpp - Sums that are wider than what travels -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Targets.h"
#include "passes/analysis/TensorOps.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERWIRES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// One reduction whose results are of another type than its operands.
class WireLowering {
public:
  explicit WireLowering(StartOp start)
      : start(start), wait(cast<WaitOp>(*start.getFuture().user_begin())),
        builder(start) {}

  void run() {
    SmallVector<Type> sums(start.getPromised()), parts;
    for (auto [input, dim] :
         llvm::zip_equal(start.getInputs(), *start.getDims()))
      parts.push_back(
          getExchangedType(getTensor(input), dim, start.getGroup()));
    FloatAttr pre = start.getPreAttr(), post = getDivisor();
    start.setKind(Collective::AllToAll);
    start.removeCombinationAttr();
    start.removePreAttr();
    start.removePostAttr();
    start.getFuture().setType(FutureType::get(builder.getContext(), parts));
    builder.setInsertionPointAfter(wait);
    for (auto [result, part, sum] :
         llvm::zip_equal(wait.getResults(), parts, sums)) {
      result.setType(part);
      auto summed =
          SumPartsOp::create(builder, wait.getLoc(), sum, result, pre, post);
      result.replaceAllUsesExcept(summed, summed);
    }
  }

private:
  /// A mean divides by the number of ranks.
  FloatAttr getDivisor() {
    if (start.getReduction() == Reduction::Avg)
      return builder.getF64FloatAttr(double(start.getGroup().getSize()));
    return start.getPostAttr();
  }

  StartOp start;
  WaitOp wait;
  OpBuilder builder;
};

bool sumsWider(StartOp start) {
  return start.getKind() == Collective::ReduceScatter &&
         llvm::any_of(llvm::zip_equal(start.getInputs(), start.getPromised()),
                      [](const auto &member) {
                        auto [input, promised] = member;
                        return getElementTypeOrSelf(input.getType()) !=
                               getElementTypeOrSelf(promised);
                      });
}

struct LowerWires final : fsdp::impl::LowerWiresBase<LowerWires> {
  using LowerWiresBase::LowerWiresBase;

  void runOnOperation() override {
    if (getTarget(getOperation()).sumsWider && !everywhere)
      return;
    for (func::FuncOp program : getPrograms(getOperation()))
      for (auto start : llvm::make_early_inc_range(program.getOps<StartOp>()))
        if (sumsWider(start))
          WireLowering(start).run();
  }
};

} // namespace
