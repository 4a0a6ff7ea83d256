//===- ScheduleCollectives.cpp - Start early, wait late ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
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
  SmallVector<Operation *, 1> downloadStarts, downloadWaits;
  SmallVector<Operation *, 1> uploadStarts;
  SmallVector<Operation *, 1> gatherStarts, gatherWaits;
  SmallVector<Operation *, 1> copyStarts, copyWaits;
};

/// Whether all that a copy moves was given to the program.
bool isGiven(CopyStartOp copy) {
  return llvm::all_of(copy.getInputs(), [](Value input) {
    while (auto replay = input.getDefiningOp<ReplayOp>())
      input = replay.getInput();
    return isa<BlockArgument>(input);
  });
}

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
    scheduleDownloads();
    scheduleGathers();
    scheduleUploads();
    scheduleActivations();
    scheduleCopies();
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
      if (auto copy = dyn_cast<CopyStartOp>(op)) {
        collectCopy(copy, transfer);
        continue;
      }
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
    for (const auto *list : {&gathers, &reductions, &replications, &uploads,
                             &downloads, &leaving, &returning, &copies})
      for (const Transfer &transfer : *list) {
        moved.insert(transfer.start);
        moved.insert(transfer.wait);
        moved.insert(transfer.tails.begin(), transfer.tails.end());
      }
    return success();
  }

  void collectCopy(CopyStartOp copy, Transfer transfer) {
    bool isOfBucket = bool(copy.getBucketAttr());
    if (isOfBucket && copy.getTo() == MemorySpace::Device && isGiven(copy)) {
      collectShardSide(copy);
      if (isReadByGathersOnly(transfer.wait)) {
        uploads.push_back(std::move(transfer));
        return;
      }
      transfer.firstUse = findFirstUse(transfer);
      gathers.push_back(std::move(transfer));
      return;
    }
    if (isLeaving(copy)) {
      leaving.push_back(std::move(transfer));
      return;
    }
    if (llvm::all_of(copy.getInputs(), [](Value input) {
          CopyStartOp away = getCopy(input);
          return away && isLeaving(away);
        })) {
      transfer.firstUse = findFirstUse(transfer);
      returning.push_back(std::move(transfer));
      return;
    }
    bool isDownload =
        isOfBucket && copy.getTo() == MemorySpace::Host && !isGiven(copy);
    if (isDownload)
      collectTails(transfer);
    transfer.firstUse = findFirstUse(transfer);
    (isDownload ? downloads : copies).push_back(std::move(transfer));
  }

  /// Whether what is copied to the host is only copied back.
  static bool isLeaving(CopyStartOp copy) {
    auto wait = cast<WaitOp>(*copy.getFuture().user_begin());
    return !copy.getBucketAttr() && copy.getTo() == MemorySpace::Host &&
           llvm::all_of(wait->getUsers(), llvm::IsaPred<CopyStartOp>);
  }

  static bool isDownload(Operation *op) {
    auto copy = dyn_cast<CopyStartOp>(op);
    return copy && copy.getBucketAttr() && copy.getTo() == MemorySpace::Host &&
           !isGiven(copy);
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
    // Of gradients that leave the device the norm is computed before.
    llvm::SmallPtrSet<Operation *, 8> sources(transfer.tails.begin(),
                                              transfer.tails.end());
    sources.insert(transfer.wait);
    SmallVector<Operation *> norms;
    for (Operation *source : sources)
      for (Operation *reader : source->getUsers())
        if (aten::isNorm(reader) && seen.insert(reader).second &&
            llvm::all_of(reader->getOperands(), [&](Value operand) {
              return sources.contains(operand.getDefiningOp()) &&
                     llvm::any_of(operand.getUsers(), isDownload);
            }))
          norms.push_back(reader);
    llvm::append_range(transfer.tails, norms);
    llvm::sort(transfer.tails, [&](Operation *a, Operation *b) {
      return positionOf(a) < positionOf(b);
    });
  }

  /// The first op that reads the results and stays where it is.
  unsigned findFirstUse(const Transfer &transfer) const {
    unsigned first = order.size();
    auto visit = [&](Operation *op) {
      for (Operation *user : op->getUsers())
        if (!llvm::is_contained(transfer.tails, user) && !isOfGradient(user) &&
            !isDownload(user))
          first = std::min(first, positionOf(user));
    };
    visit(transfer.wait);
    llvm::for_each(transfer.tails, visit);
    bool isRead = first != order.size();
    return isRead ? first : positionOf(transfer.wait);
  }

  /// Casts and replays that only gathers and copies read move with them.
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

  /// By the waits of copies and by what is between them and gathers.
  static bool isReadByGathersOnly(Operation *op) {
    if (isa<CopyStartOp>(op))
      op = *op->user_begin();
    return llvm::all_of(op->getUsers(), [](Operation *user) {
      return isa<AllGatherStartOp, CopyStartOp>(user) ||
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
    link(downloads, replications);
    link(downloads, reductions);
    link(replications, reductions);
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

  /// Transfers whose results only those behind them read are needed where
  /// theirs are.
  void link(ArrayRef<Transfer> behind, MutableArrayRef<Transfer> transfers) {
    llvm::DenseMap<Operation *, Transfer *> sources;
    for (Transfer &transfer : transfers)
      for (Operation *op : getWaitAndTails(transfer))
        sources[op] = &transfer;
    llvm::DenseMap<Transfer *, unsigned> firstUses;
    for (const Transfer &next : behind)
      for (Value operand : next.start->getOperands())
        if (Transfer *source = sources.lookup(operand.getDefiningOp())) {
          auto [it, isNew] = firstUses.try_emplace(source, next.firstUse);
          it->second = std::min(it->second, next.firstUse);
        }
    for (auto [transfer, firstUse] : firstUses) {
      bool isRead =
          llvm::any_of(getWaitAndTails(*transfer), [&](Operation *op) {
            return llvm::any_of(op->getUsers(), [&](Operation *user) {
              return !moved.contains(user);
            });
          });
      transfer->firstUse =
          isRead ? std::min(transfer->firstUse, firstUse) : firstUse;
    }
  }

  /// The first slot in which the operands of a start are there, those that
  /// other transfers leave included.
  unsigned getReadySlot(Operation *start) const {
    unsigned slot = 0;
    for (Value operand : start->getOperands()) {
      Operation *source = operand.getDefiningOp();
      if (!source)
        continue;
      auto it = waitSlots.find(source);
      slot = std::max(slot, it != waitSlots.end()    ? it->second
                            : moved.contains(source) ? getOperandSlot(source)
                                                     : positionOf(source) + 1);
    }
    return slot;
  }

  void noteWaits(ArrayRef<Transfer> transfers) {
    for (const Transfer &transfer : transfers)
      for (Operation *op : getWaitAndTails(transfer))
        waitSlots[op] = transfer.waitSlot;
  }

  /// Of gradients to the host, one behind the other.
  void scheduleDownloads() {
    noteWaits(reductions);
    noteWaits(replications);
    for (Transfer &download : downloads)
      download.startSlot = getReadySlot(download.start);
    llvm::stable_sort(downloads, [](const Transfer &a, const Transfer &b) {
      return a.startSlot < b.startSlot;
    });
    for (auto [i, download] : llvm::enumerate(downloads)) {
      download.waitSlot = download.firstUse;
      if (i + 1 < downloads.size())
        download.waitSlot =
            std::min(download.waitSlot, downloads[i + 1].startSlot);
      download.waitSlot = std::max(download.waitSlot, download.startSlot);
    }
    noteWaits(downloads);
  }

  /// Of shards that are to be gathered: their waits stand in front of the
  /// gathers.
  void scheduleUploads() {
    llvm::DenseMap<Operation *, unsigned> earliest; // by wait
    for (auto [i, gather] : llvm::enumerate(gathers)) {
      unsigned slot = i == 0 ? 0 : gathers[i - 1].startSlot;
      slot = std::min(slot, gather.startSlot);
      for (Value shard : gather.start->getOperands())
        for (; shard; shard = getShardSideOperand(shard))
          if (getCopy(shard)) {
            auto [it, isNew] =
                earliest.try_emplace(shard.getDefiningOp(), slot);
            it->second = std::min(it->second, slot);
          }
    }
    for (Transfer &upload : uploads)
      upload.startSlot = earliest.lookup(upload.wait);
    llvm::stable_sort(uploads, [](const Transfer &a, const Transfer &b) {
      return a.startSlot < b.startSlot;
    });
  }

  static int64_t getBytes(const Transfer &transfer) {
    int64_t bytes = 0;
    for (Value input : transfer.start->getOperands())
      bytes += aten::getStorageBytes(cast<RankedTensorType>(input.getType()));
    return bytes;
  }

  /// Activations that leave in forward and return in backward. What is on its
  /// way at once is an eighth of all: enough to hide much of the way, and to
  /// gain most of the memory.
  void scheduleActivations() {
    int64_t flight = 0;
    for (Transfer &each : leaving) {
      each.startSlot = getReadySlot(each.start);
      flight += getBytes(each);
    }
    flight /= 8;
    llvm::stable_sort(leaving, [](const Transfer &a, const Transfer &b) {
      return a.startSlot < b.startSlot;
    });
    unsigned last = border + 1;
    int64_t behind = 0; // bytes of the started ones in [i, next)
    size_t next = 0;
    for (size_t i = 0; i < leaving.size(); ++i) {
      while (next < leaving.size() && behind <= flight)
        behind += getBytes(leaving[next++]);
      unsigned end = behind > flight ? leaving[next - 1].startSlot : last;
      leaving[i].waitSlot = std::max(leaving[i].startSlot, std::min(last, end));
      behind -= getBytes(leaving[i]);
    }
    noteWaits(leaving);
    llvm::stable_sort(returning, [](const Transfer &a, const Transfer &b) {
      return a.firstUse < b.firstUse;
    });
    int64_t ahead = 0; // bytes of those in [first, i)
    size_t first = 0;
    for (size_t i = 0; i < returning.size(); ++i) {
      while (ahead > flight)
        ahead -= getBytes(returning[first++]);
      Transfer &each = returning[i];
      unsigned begin = first == 0 ? last : returning[first - 1].waitSlot;
      each.startSlot =
          std::max(getReadySlot(each.start), std::min(each.firstUse, begin));
      each.waitSlot = std::max(each.firstUse, each.startSlot);
      ahead += getBytes(each);
    }
  }

  /// All others.
  void scheduleCopies() {
    for (Transfer &copy : copies) {
      copy.startSlot = getReadySlot(copy.start);
      copy.waitSlot = std::max(copy.firstUse, copy.startSlot);
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
    for (Transfer &download : downloads) {
      slots[download.startSlot].downloadStarts.push_back(download.start);
      llvm::append_range(slots[download.waitSlot].downloadWaits,
                         getWaitAndTails(download));
    }
    for (Transfer &upload : uploads)
      slots[upload.startSlot].uploadStarts.push_back(upload.start);
    for (Transfer &each : leaving) {
      slots[each.startSlot].downloadStarts.push_back(each.start);
      slots[each.waitSlot].downloadWaits.push_back(each.wait);
    }
    for (const auto *list : {&returning, &copies})
      for (const Transfer &copy : *list) {
        slots[copy.startSlot].copyStarts.push_back(copy.start);
        slots[copy.waitSlot].copyWaits.push_back(copy.wait);
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
      llvm::append_range(scheduled, slot.downloadStarts);
      llvm::append_range(scheduled, slot.downloadWaits);
      for (Operation *start : slot.uploadStarts)
        if (placed.insert(start).second)
          scheduleWithOperands(start);
      llvm::append_range(scheduled, slot.copyStarts);
      for (Operation *start : slot.gatherStarts)
        scheduleWithOperands(start);
      llvm::append_range(scheduled, slot.gatherWaits);
      llvm::append_range(scheduled, slot.copyWaits);
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
  /// Between memories: of shards that are gathered, of gradients, of
  /// activations to the host and back, others.
  SmallVector<Transfer> uploads, downloads, leaving, returning, copies;
  llvm::DenseMap<Operation *, unsigned> waitSlots;
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
