//===- InsertFrees.cpp - End gathered tensors' lives ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"
#include "passes/analysis/Views.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_INSERTFREES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct InsertFrees final : fsdp::impl::InsertFreesBase<InsertFrees> {
  void runOnOperation() override {
    StateTable states(getOperation());
    for (func::FuncOp func : getPrograms(getOperation()))
      if (failed(run(func, states)))
        return signalPassFailure();
  }

private:
  static LogicalResult run(func::FuncOp func, const StateTable &states) {
    Block &body = func.getBody().front();
    Views views(body);
    DenseSet<Value> kept = getKept(func, states);
    // The last op that reads each gathered tensor; the wait itself if none.
    llvm::MapVector<Value, Operation *> lastUses;
    for (Operation &op : body) {
      if (auto wait = dyn_cast<WaitOp>(op)) {
        // What the step itself exchanges is an activation like others.
        Operation *start = wait.getFuture().getDefiningOp();
        if (isStart(start, Collective::AllGather) && !isOfStep(start))
          for (Value result : wait.getResults())
            if (!kept.contains(result))
              lastUses[result] = wait;
        // Until here the transfer read them.
        for (Value result : wait.getResults())
          extend(lastUses, views, getTransferred(result), &op);
      }
      for (Value operand : op.getOperands())
        extend(lastUses, views, operand, &op);
    }
    llvm::MapVector<Operation *, SmallVector<Value>> frees;
    for (auto [value, op] : lastUses) {
      if (isa<FreeOp>(op))
        return op->emitOpError("stands in a program whose frees are still to "
                               "be inserted");
      if (op->hasTrait<OpTrait::IsTerminator>())
        return op->emitOpError("returns a gathered tensor, which must be freed "
                               "before; return its shard instead");
      frees[op].push_back(value);
    }
    for (auto &[op, values] : frees) {
      OpBuilder builder(op->getContext());
      builder.setInsertionPointAfter(op);
      FreeOp::create(builder, op->getLoc(), values);
    }
    return success();
  }

  static void extend(llvm::MapVector<Value, Operation *> &lastUses,
                     const Views &views, Value used, Operation *op) {
    auto it = lastUses.find(views.getRoot(used));
    if (it != lastUses.end())
      it->second = op;
  }
};

} // namespace
