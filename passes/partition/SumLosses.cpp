//===- SumLosses.cpp - Mean losses as quotients of sums -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/LossReduction.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/TensorOps.h"
#include "passes/partition/WholeOp.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_SUMLOSSES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct SumLosses final : fsdp::impl::SumLossesBase<SumLosses> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (getSetting<ParallelAttr>(module).getCp() == 1)
      return;
    for (func::FuncOp func : getPrograms(module))
      if (func->hasAttr(kCapturedAttr))
        for (Operation &op : llvm::make_early_inc_range(func.getBody().front()))
          if (isMeanLoss(op))
            sum(op);
  }

private:
  static bool isMeanLoss(Operation &op) {
    return fsdp::getName(&op) == "aten.nll_loss_forward" &&
           WholeOp::ofCaptured(&op).getInt("reduction") == MeanReduction;
  }

  static void sum(Operation &op) {
    TensorOps ops(&op);
    NamedAttrList statics(WholeOp::ofCaptured(&op).property);
    statics.set("reduction", ops.get().getI64IntegerAttr(SumReduction));
    Operation *sums = ops.remake(&op, op.getOperands(), op.getResultTypes(),
                                 statics.getDictionary(op.getContext()));
    Value mean = ops.divide(sums->getResult(0), sums->getResult(1));
    op.getResult(0).replaceAllUsesWith(mean);
    op.getResult(1).replaceAllUsesWith(sums->getResult(1));
    op.erase();
  }
};

} // namespace
