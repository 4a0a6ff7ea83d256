//===- LowerSummands.cpp - What the first rank of a group adds ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/TensorOps.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERSUMMANDS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct LowerSummands : fsdp::impl::LowerSummandsBase<LowerSummands> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      for (auto summand : llvm::make_early_inc_range(
               program.getBody().front().getOps<SummandOp>())) {
        TensorOps ops(summand);
        RankedTensorType type = getTensor(summand.getResult());
        SmallVector<int64_t> row{1};
        llvm::append_range(row, type.getShape());
        Value whole = ops.view(summand.getInput(), row);
        Value own =
            ShardOp::create(ops.get(), summand.getLoc(), whole.getType(), whole,
                            0, summand.getGroup(), PartsAttr(), Purpose::Step);
        summand.replaceAllUsesWith(ops.view(own, type.getShape()));
        summand.erase();
      }
  }
};

} // namespace
