//===- MoveCastsToShards.cpp - Cast before the gather --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/GradientChains.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_MOVECASTSTOSHARDS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// The only reader of a parameter's gather if that is a plain cast to a type
/// that is not wider, else null.
Operation *getMovableCast(AllGatherOp gather) {
  if (isOfStep(gather) || !gather.getFull().hasOneUse())
    return nullptr;
  Operation *cast = *gather.getFull().user_begin();
  if (!aten::isPlainCast(cast))
    return nullptr;
  auto from = mlir::cast<RankedTensorType>(gather.getFull().getType());
  auto to = mlir::cast<RankedTensorType>(cast->getResult(0).getType());
  if (to.getEncoding() || !to.getElementType().isIntOrFloat() ||
      !from.getElementType().isIntOrFloat() ||
      to.getElementTypeBitWidth() > from.getElementTypeBitWidth())
    return nullptr;
  return cast;
}

struct MoveCastsToShards final
    : fsdp::impl::MoveCastsToShardsBase<MoveCastsToShards> {
  void runOnOperation() override {
    StateTable states(getOperation());
    for (func::FuncOp func : getPrograms(getOperation())) {
      for (ArrayRef<ReductionOpInterface> chain : getGradientChains(func))
        if (Operation *cast = getLastCast(chain.front(), states))
          moveBehind(chain, cast);
      SmallVector<AllGatherOp> gathers(func.getOps<AllGatherOp>());
      for (AllGatherOp gather : gathers)
        if (Operation *cast = getMovableCast(gather))
          swap(gather, cast);
    }
  }

private:
  /// The cast from the type in which the gradient is to be reduced to the
  /// parameter's own, if `reduction` reads it, else null.
  static Operation *getLastCast(ReductionOpInterface reduction,
                                const StateTable &states) {
    StateOp state = states.lookup(reduction.getGradientOf(0));
    Operation *cast = reduction->getOperand(0).getDefiningOp();
    if (!state || !state.isReducedInOtherType() || !aten::isPlainCast(cast))
      return nullptr;
    auto from = mlir::cast<RankedTensorType>(cast->getOperand(0).getType());
    return from.getElementType() == state.getReduceType() ? cast : nullptr;
  }

  static void moveBehind(ArrayRef<ReductionOpInterface> chain,
                         Operation *castOp) {
    Value value = castOp->getOperand(0);
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    Operation *last = ReductionOpInterface(chain.back());
    Type own = last->getResult(0).getType();
    for (Operation *op : chain) {
      op->setOperand(0, value);
      value = op->getResult(0);
      auto type = cast<RankedTensorType>(value.getType());
      value.setType(type.clone(element));
    }
    OpBuilder builder(castOp->getContext());
    builder.setInsertionPointAfter(last);
    IRMapping mapping;
    mapping.map(castOp->getOperand(0), value);
    Operation *moved = builder.clone(*castOp, mapping);
    moved->getResult(0).setType(own);
    value.replaceAllUsesExcept(moved->getResult(0), moved);
    if (castOp->use_empty())
      castOp->erase();
  }

  static void swap(AllGatherOp gather, Operation *castOp) {
    auto full = cast<RankedTensorType>(castOp->getResult(0).getType());
    OpBuilder builder(castOp);
    IRMapping mapping;
    mapping.map(gather.getFull(), gather.getShard());
    Operation *shardCast = builder.clone(*castOp, mapping);
    shardCast->getResult(0).setType(
        getShardType(full, gather.getDim(), gather.getGroup()));
    auto moved = AllGatherOp::create(builder, gather.getLoc(), full,
                                     shardCast->getResult(0), gather.getDim(),
                                     gather.getGroup(), PartsAttr());
    castOp->getResult(0).replaceAllUsesWith(moved.getFull());
    castOp->erase();
    gather.erase();
  }
};

} // namespace
