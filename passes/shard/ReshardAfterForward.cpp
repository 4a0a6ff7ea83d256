//===- ReshardAfterForward.cpp - Gather again for backward ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Programs.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_RESHARDAFTERFORWARD
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// The gathered tensor's data in another type or layout: cheaper to make again
/// than to keep.
bool isDerived(OpResult result) {
  StringRef name = result.getOwner()->getName().getStringRef();
  return aten::getViewSource(result) || name == "aten._to_copy" ||
         name == "aten.clone";
}

/// Gives one gathered tensor its second life.
class SecondLife {
public:
  SecondLife(AllGatherOp gather,
             const llvm::DenseMap<Operation *, unsigned> &positions,
             unsigned border)
      : gather(gather), positions(positions), border(border) {}

  void run() {
    collect(gather.getFull());
    // A tensor that only backward reads has one life, there.
    if (!readInForward)
      return;
    llvm::stable_sort(uses, [&](OpOperand *a, OpOperand *b) {
      return positions.at(a->getOwner()) < positions.at(b->getOwner());
    });
    for (OpOperand *use : uses) {
      OpBuilder builder(use->getOwner());
      use->set(rebuild(use->get(), builder));
    }
  }

private:
  /// Finds the reads in backward of `value` and of what forward derives from
  /// it.
  void collect(Value value) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      // A copy that is a result was made for it, in forward.
      if (user->hasTrait<OpTrait::IsTerminator>())
        continue;
      if (positions.at(user) > border) {
        uses.push_back(&use);
        continue;
      }
      readInForward = true;
      for (OpResult result : user->getResults())
        if (isDerived(result) && user->getOperand(0) == value)
          collect(result);
    }
  }

  Value rebuild(Value value, OpBuilder &builder) {
    if (Value known = rebuilt.lookupOrNull(value))
      return known;
    if (value == gather.getFull()) {
      auto replay =
          ReplayOp::create(builder, gather.getLoc(),
                           gather.getShard().getType(), gather.getShard());
      auto again = AllGatherOp::create(
          builder, gather.getLoc(), gather.getFull().getType(),
          replay.getResult(), gather.getDim(), gather.getGroup());
      rebuilt.map(value, again.getFull());
      return again.getFull();
    }
    Operation *op = value.getDefiningOp();
    rebuild(op->getOperand(0), builder);
    builder.clone(*op, rebuilt);
    return rebuilt.lookup(value);
  }

  AllGatherOp gather;
  const llvm::DenseMap<Operation *, unsigned> &positions;
  unsigned border;
  bool readInForward = false;
  SmallVector<OpOperand *> uses;
  IRMapping rebuilt;
};

struct ReshardAfterForward final
    : fsdp::impl::ReshardAfterForwardBase<ReshardAfterForward> {
  using Base::Base;

  void runOnOperation() override {
    if (mode == ReshardMode::None)
      return;
    StateTable states(getOperation());
    for (func::FuncOp func : getPrograms(getOperation()))
      if (failed(run(func, states)))
        return signalPassFailure();
  }

private:
  LogicalResult run(func::FuncOp func, const StateTable &states) {
    Operation *last = ForwardSlice(func).getLast();
    if (!last)
      return success();
    llvm::DenseMap<Operation *, unsigned> positions;
    SmallVector<AllGatherOp> gathers;
    for (auto [i, op] : llvm::enumerate(func.getBody().front())) {
      positions[&op] = i;
      if (auto gather = dyn_cast<AllGatherOp>(op))
        gathers.push_back(gather);
    }
    for (AllGatherOp gather : gathers) {
      BlockArgument source = getShardSource(gather.getShard());
      StateOp state =
          source ? states.lookup(func, source.getArgNumber()) : StateOp();
      if (!state || !state.getBucket())
        return gather.emitOpError("expects to gather a parameter that has a "
                                  "bucket; run fsdp-assign-buckets first");
      if (mode == ReshardMode::All || *state.getBucket() != kRootBucket)
        SecondLife(gather, positions, positions.at(last)).run();
    }
    return success();
  }
};

} // namespace
