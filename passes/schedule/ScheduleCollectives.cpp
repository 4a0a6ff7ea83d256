//===- ScheduleCollectives.cpp - Start early, wait late ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Views.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_SCHEDULECOLLECTIVES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// A transfer that moves, with the slots that it moves to. Slot s is the place
/// in front of what was op s of the block.
struct Transfer {
  Operation *start;
  WaitOp wait;
  unsigned firstUse;
  unsigned startSlot = 0, waitSlot = 0;
};

/// What stands in one slot, in this order: a reduction goes out and the one
/// before it gives its memory back before the next bucket is gathered.
struct Slot {
  SmallVector<Operation *, 1> reduceStarts, reduceWaits;
  SmallVector<Operation *, 1> gatherStarts, gatherWaits;
};

/// Schedules one program on arrays and writes the order back once: asking MLIR
/// for the order of two ops after a move would cost linear time.
class Scheduler {
public:
  Scheduler(func::FuncOp func, size_t prefetch)
      : func(func), body(func.getBody().front()), prefetch(prefetch),
        views(body) {
    for (Operation &op : body) {
      positions[&op] = order.size();
      order.push_back(&op);
    }
  }

  LogicalResult run() {
    if (failed(collect()))
      return failure();
    findBorder();
    scheduleReductions();
    scheduleGathers();
    writeBack();
    return success();
  }

private:
  unsigned positionOf(Operation *op) const { return positions.at(op); }

  LogicalResult collect() {
    for (Operation *op : order) {
      if (!isa<AllGatherStartOp, ReduceScatterStartOp>(op))
        continue;
      Value future = op->getResult(0);
      if (!future.hasOneUse() || !isa<WaitOp>(*future.user_begin()))
        return op->emitOpError("expects one wait for its future, found ")
               << std::distance(future.use_begin(), future.use_end())
               << " uses";
      auto wait = cast<WaitOp>(*future.user_begin());
      unsigned firstUse = positionOf(wait);
      bool isRead = false;
      for (Operation *user : wait->getUsers()) {
        firstUse =
            isRead ? std::min(firstUse, positionOf(user)) : positionOf(user);
        isRead = true;
      }
      Transfer transfer{op, wait, firstUse};
      if (isa<AllGatherStartOp>(op)) {
        gathers.push_back(transfer);
        collectShardSide(op);
      } else if (llvm::none_of(op->getOperands(), [](Value value) {
                   return isa_and_nonnull<WaitOp>(value.getDefiningOp());
                 })) {
        reductions.push_back(transfer);
      }
    }
    for (const auto &list : {gathers, reductions})
      for (const Transfer &transfer : list) {
        moved.insert(transfer.start);
        moved.insert(transfer.wait);
      }
    return success();
  }

  /// Casts and replays that only gathers read move with them.
  void collectShardSide(Operation *start) {
    SmallVector<Operation *> worklist{start};
    while (!worklist.empty())
      for (Value operand : worklist.pop_back_val()->getOperands()) {
        Operation *op = operand.getDefiningOp();
        if (op && isShardSide(op) && isReadByGathersOnly(op) &&
            moved.insert(op).second)
          worklist.push_back(op);
      }
  }

  static bool isReadByGathersOnly(Operation *op) {
    return llvm::all_of(op->getUsers(), [](Operation *user) {
      return isa<AllGatherStartOp>(user) ||
             (isShardSide(user) && isReadByGathersOnly(user));
    });
  }

  /// Forward ends with what the loss needs; gathered tensors of backward start
  /// after the last op of forward that reads a gathered tensor.
  void findBorder() {
    Operation *last = ForwardSlice(func).getLast();
    border = last ? positionOf(last) : 0;
    llvm::DenseSet<Value> gathered;
    for (Transfer &gather : gathers)
      for (Value result : gather.wait.getResults())
        gathered.insert(result);
    for (Operation *op : ArrayRef(order).take_front(border + 1))
      if (!moved.contains(op))
        for (Value operand : op->getOperands())
          if (gathered.contains(views.getRoot(operand)))
            backwardSlot = positionOf(op) + 1;
  }

  void scheduleReductions() {
    for (Transfer &reduction : reductions)
      for (Value operand : reduction.start->getOperands())
        if (Operation *op = operand.getDefiningOp())
          reduction.startSlot =
              std::max(reduction.startSlot, positionOf(op) + 1);
    llvm::stable_sort(reductions, [](const Transfer &a, const Transfer &b) {
      return a.startSlot < b.startSlot;
    });
    for (auto [i, reduction] : llvm::enumerate(reductions)) {
      reduction.waitSlot = reduction.firstUse;
      if (i + 1 < reductions.size())
        reduction.waitSlot =
            std::min(reduction.waitSlot, reductions[i + 1].startSlot);
    }
  }

  void scheduleGathers() {
    llvm::stable_sort(gathers, [](const Transfer &a, const Transfer &b) {
      return a.firstUse < b.firstUse;
    });
    auto *firstBackward = llvm::find_if(gathers, [&](const Transfer &gather) {
      return gather.firstUse > border;
    });
    schedulePhase({gathers.begin(), firstBackward}, 0);
    schedulePhase({firstBackward, gathers.end()}, backwardSlot);
  }

  void schedulePhase(MutableArrayRef<Transfer> phase, unsigned begin) {
    for (auto [i, gather] : llvm::enumerate(phase)) {
      gather.waitSlot = gather.firstUse;
      unsigned early = i < prefetch ? begin : phase[i - prefetch].waitSlot;
      gather.startSlot = std::max(std::min(early, gather.waitSlot),
                                  getOperandSlot(gather.start));
    }
  }

  /// The first slot in which all operands that do not move along are there.
  unsigned getOperandSlot(Operation *op) const {
    unsigned slot = 0;
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp())
        slot = std::max(slot, moved.contains(source) ? getOperandSlot(source)
                                                     : positionOf(source) + 1);
    return slot;
  }

  void writeBack() {
    std::vector<Slot> slots(order.size());
    for (Transfer &reduction : reductions) {
      slots[reduction.startSlot].reduceStarts.push_back(reduction.start);
      slots[reduction.waitSlot].reduceWaits.push_back(reduction.wait);
    }
    for (Transfer &gather : gathers) {
      slots[gather.startSlot].gatherStarts.push_back(gather.start);
      slots[gather.waitSlot].gatherWaits.push_back(gather.wait);
    }
    for (auto [slot, op] : llvm::zip_equal(slots, order)) {
      llvm::append_range(scheduled, slot.reduceStarts);
      llvm::append_range(scheduled, slot.reduceWaits);
      for (Operation *start : slot.gatherStarts)
        scheduleWithOperands(start);
      llvm::append_range(scheduled, slot.gatherWaits);
      if (!moved.contains(op))
        scheduled.push_back(op);
    }
    // The terminator comes last in both orders.
    for (Operation *op : ArrayRef(scheduled).drop_back())
      op->moveBefore(scheduled.back());
  }

  void scheduleWithOperands(Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp();
          source && moved.contains(source) && placed.insert(source).second)
        scheduleWithOperands(source);
    scheduled.push_back(op);
  }

  func::FuncOp func;
  Block &body;
  size_t prefetch;
  Views views;
  std::vector<Operation *> order, scheduled;
  llvm::DenseMap<Operation *, unsigned> positions;
  llvm::DenseSet<Operation *> moved, placed;
  SmallVector<Transfer> gathers, reductions;
  unsigned border = 0, backwardSlot = 0;
};

struct ScheduleCollectives final
    : fsdp::impl::ScheduleCollectivesBase<ScheduleCollectives> {
  using Base::Base;

  void runOnOperation() override {
    if (prefetch < 0) {
      getOperation().emitError("expected a prefetch of at least 0, found ")
          << prefetch.getValue();
      return signalPassFailure();
    }
    for (func::FuncOp func : getPrograms(getOperation()))
      if (failed(Scheduler(func, prefetch).run()))
        return signalPassFailure();
  }
};

} // namespace
