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
  unsigned firstUse; ///< by what stays in its place
  /// Of reductions: what stands behind the wait, in order.
  SmallVector<Operation *> tails;
  unsigned startSlot = 0, waitSlot = 0;
};

/// What stands in one slot, in this order: a reduction goes out and the one
/// before it gives its memory back before the next bucket is gathered.
struct Slot {
  SmallVector<Operation *, 1> reduceStarts, reduceWaits;
  SmallVector<Operation *, 1> replicateStarts, replicateWaits;
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
      auto start = dyn_cast<StartOpInterface>(op);
      if (!start || (start.isInPlace() && !isOfGradient(op)))
        continue;
      Value future = start.getFuture();
      if (!future.hasOneUse() || !isa<WaitOp>(*future.user_begin()))
        return op->emitOpError("expects one wait for its future, found ")
               << std::distance(future.use_begin(), future.use_end())
               << " uses";
      Transfer transfer{op, cast<WaitOp>(*future.user_begin()), 0, {}};
      if (isa<AllGatherStartOp>(op)) {
        transfer.firstUse = findFirstUse(transfer);
        collectShardSide(op);
        gathers.push_back(transfer);
        continue;
      }
      collectTails(transfer);
      transfer.firstUse = findFirstUse(transfer);
      if (isa<AllReduceStartOp>(op))
        replications.push_back(std::move(transfer));
      else if (llvm::none_of(op->getOperands(), [](Value value) {
                 return isa_and_nonnull<WaitOp>(value.getDefiningOp());
               }))
        reductions.push_back(std::move(transfer));
    }
    for (const auto *list : {&gathers, &reductions, &replications})
      for (const Transfer &transfer : *list) {
        moved.insert(transfer.start);
        moved.insert(transfer.wait);
        moved.insert(transfer.tails.begin(), transfer.tails.end());
      }
    return success();
  }

  static bool isOfGradient(Operation *op) {
    auto start = dyn_cast<AllReduceStartOp>(op);
    return start && start.getOf();
  }

  /// Everything that reads the wait's results through casts and sums only.
  void collectTails(Transfer &transfer) const {
    SmallVector<Operation *> worklist{transfer.wait};
    llvm::SmallPtrSet<Operation *, 8> seen;
    while (!worklist.empty())
      for (Operation *reader : worklist.pop_back_val()->getUsers())
        if (isReductionTail(reader) && seen.insert(reader).second) {
          transfer.tails.push_back(reader);
          worklist.push_back(reader);
        }
    llvm::sort(transfer.tails, [&](Operation *a, Operation *b) {
      return positionOf(a) < positionOf(b);
    });
  }

  /// The first op that reads the results and stays where it is.
  unsigned findFirstUse(const Transfer &transfer) const {
    unsigned first = order.size();
    auto visit = [&](Operation *op) {
      for (Operation *user : op->getUsers())
        if (!llvm::is_contained(transfer.tails, user) && !isOfGradient(user))
          first = std::min(first, positionOf(user));
    };
    visit(transfer.wait);
    llvm::for_each(transfer.tails, visit);
    bool isRead = first != order.size();
    return isRead ? first : positionOf(transfer.wait);
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
    linkReplications();
    for (Transfer &reduction : reductions)
      reduction.startSlot = getOperandSlot(reduction.start);
    llvm::stable_sort(reductions, [](const Transfer &a, const Transfer &b) {
      return a.startSlot < b.startSlot;
    });
    for (auto [i, reduction] : llvm::enumerate(reductions)) {
      reduction.waitSlot = reduction.firstUse;
      if (i + 1 < reductions.size())
        reduction.waitSlot =
            std::min(reduction.waitSlot, reductions[i + 1].startSlot);
    }
    // Replicas add up what a reduction has left as soon as it is done. Their
    // memory is the shards' own: nothing is gained by an early wait.
    llvm::DenseMap<Operation *, unsigned> waitSlots;
    for (Transfer &reduction : reductions)
      for (Operation *op : getWaitAndTails(reduction))
        waitSlots[op] = reduction.waitSlot;
    for (Transfer &replication : replications) {
      for (Value operand : replication.start->getOperands())
        if (Operation *source = operand.getDefiningOp())
          replication.startSlot =
              std::max(replication.startSlot, moved.contains(source)
                                                  ? waitSlots.lookup(source)
                                                  : positionOf(source) + 1);
      replication.waitSlot =
          std::max(replication.firstUse, replication.startSlot);
    }
    llvm::stable_sort(replications, [](const Transfer &a, const Transfer &b) {
      return a.startSlot < b.startSlot;
    });
  }

  /// A reduction whose results only replicas read is needed where theirs are.
  void linkReplications() {
    llvm::DenseMap<Operation *, Transfer *> sources;
    for (Transfer &reduction : reductions)
      for (Operation *op : getWaitAndTails(reduction))
        sources[op] = &reduction;
    llvm::DenseMap<Transfer *, unsigned> firstUses;
    for (Transfer &replication : replications)
      for (Value operand : replication.start->getOperands())
        if (Transfer *source = sources.lookup(operand.getDefiningOp())) {
          auto [it, isNew] =
              firstUses.try_emplace(source, replication.firstUse);
          it->second = std::min(it->second, replication.firstUse);
        }
    for (auto [reduction, firstUse] : firstUses) {
      bool isRead =
          llvm::any_of(getWaitAndTails(*reduction), [&](Operation *op) {
            return llvm::any_of(op->getUsers(), [&](Operation *user) {
              return !moved.contains(user);
            });
          });
      reduction->firstUse =
          isRead ? std::min(reduction->firstUse, firstUse) : firstUse;
    }
  }

  static SmallVector<Operation *> getWaitAndTails(const Transfer &transfer) {
    SmallVector<Operation *> ops{transfer.wait};
    llvm::append_range(ops, transfer.tails);
    return ops;
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
      llvm::append_range(slots[reduction.waitSlot].reduceWaits,
                         getWaitAndTails(reduction));
    }
    for (Transfer &replication : replications) {
      slots[replication.startSlot].replicateStarts.push_back(replication.start);
      llvm::append_range(slots[replication.waitSlot].replicateWaits,
                         getWaitAndTails(replication));
    }
    for (Transfer &gather : gathers) {
      slots[gather.startSlot].gatherStarts.push_back(gather.start);
      slots[gather.waitSlot].gatherWaits.push_back(gather.wait);
    }
    for (auto [slot, op] : llvm::zip_equal(slots, order)) {
      llvm::append_range(scheduled, slot.reduceStarts);
      llvm::append_range(scheduled, slot.reduceWaits);
      llvm::append_range(scheduled, slot.replicateStarts);
      llvm::append_range(scheduled, slot.replicateWaits);
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
  SmallVector<Transfer> gathers, reductions, replications;
  unsigned border = 0, backwardSlot = 0;
};

struct ScheduleCollectives final
    : fsdp::impl::ScheduleCollectivesBase<ScheduleCollectives> {
  void runOnOperation() override {
    auto prefetch =
        static_cast<size_t>(getSetting<StepAttr>(getOperation()).getPrefetch());
    for (func::FuncOp func : getPrograms(getOperation()))
      if (failed(Scheduler(func, prefetch).run()))
        return signalPassFailure();
  }
};

} // namespace
