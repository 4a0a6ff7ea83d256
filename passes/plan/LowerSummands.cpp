//===- LowerSummands.cpp - What the first rank of a group adds ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/Passes.h"
#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_LOWERSUMMANDS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

Value view(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  return aten::buildAtenOp(
             builder, value.getLoc(), "aten.view", {value},
             {builder.getNamedAttr("size", builder.getI64ArrayAttr(shape))},
             {RankedTensorType::get(shape, type.getElementType())})
      ->getResult(0);
}

struct LowerSummands : fsdp::impl::LowerSummandsBase<LowerSummands> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      for (auto summand : llvm::make_early_inc_range(
               program.getBody().front().getOps<SummandOp>())) {
        OpBuilder builder(summand);
        auto type = cast<RankedTensorType>(summand.getResult().getType());
        SmallVector<int64_t> row{1};
        llvm::append_range(row, type.getShape());
        Value whole = view(builder, summand.getInput(), row);
        Value own = ShardOp::create(builder, summand.getLoc(), whole.getType(),
                                    whole, 0, summand.getGroup(), PartsAttr());
        summand.replaceAllUsesWith(view(builder, own, type.getShape()));
        summand.erase();
      }
  }
};

} // namespace
