//===- ScheduleCollectives.cpp - Start early, wait late ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/Passes.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Transfers.h"
#include "passes/analysis/Views.h"
#include "passes/schedule/Transfers.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_SCHEDULECOLLECTIVES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// How far transfers may stand from where they are needed.
class Distances {
public:
  explicit Distances(ModuleOp module)
      : reductionsInFlight(static_cast<size_t>(
            getSetting<StepAttr>(module).getReductionsInFlight())),
        module(module), everywhere(static_cast<size_t>(
                            getSetting<StepAttr>(module).getPrefetch())),
        buckets(getBucketNames(module)) {
    for (RuleAttr rule :
         getList<RuleAttr>(getSetting<BucketsAttr>(module).getRules()))
      if (rule.getPrefetch())
        rules.push_back(rule);
  }

  LogicalResult verify() const {
    for (RuleAttr rule : rules)
      if (failed(
              verifyMatches(module, rule, buckets, "buckets to gather ahead")))
        return failure();
    return success();
  }

  /// Gathers that the one of `start` is ahead of.
  size_t getPrefetch(Operation *start) const {
    StringAttr attr = cast<StartOpInterface>(start).getBucketAttr();
    StringRef bucket = attr ? attr.getValue() : StringRef();
    // Members of a second type have a transfer of their own, "bucket/type".
    if (!buckets.contains(bucket))
      bucket = bucket.rsplit('/').first;
    size_t chosen = everywhere;
    for (RuleAttr rule : rules)
      if (matchesAny(rule.getBuckets(), bucket))
        chosen = static_cast<size_t>(*rule.getPrefetch());
    return chosen;
  }

  const size_t reductionsInFlight;

private:
  ModuleOp module;
  size_t everywhere;
  SmallVector<RuleAttr> rules;
  llvm::StringSet<> buckets;
};

/// What stands in one slot, in this order: a reduction goes out and the one
/// before it gives its memory back before the next bucket is gathered.
struct Slot {
  using Ops = SmallVector<Operation *, 1>;

  Ops reduceStarts, reduceWaits;
  Ops replicateStarts, replicateWaits;
  Ops downloadStarts, downloadWaits;
  Ops uploadStarts;
  Ops gatherStarts, gatherWaits;
  Ops copyStarts, copyWaits;
};

/// Schedules one program on arrays and writes the order back once.
class Scheduler {
public:
  Scheduler(func::FuncOp func, const Distances &distances, Transfers transfers)
      : func(func), distances(distances), views(func.getBody().front()),
        all(std::move(transfers)) {}

  void run() {
    findBorder();
    scheduleReductions();
    scheduleGathers();
    scheduleUploads();
    scheduleActivations();
    scheduleUpdated();
    scheduleEach(all.copies);
    writeBack();
  }

private:
  /// Forward ends with what the loss needs; gathered tensors of backward start
  /// after the last op of forward that reads a gathered tensor.
  void findBorder() {
    Operation *last = ForwardSlice(func).getLast();
    border = last ? all.positionOf(last) : 0;
    llvm::DenseSet<Value> gathered;
    for (Transfer &gather : all.gathers)
      for (Value result : gather.wait.getResults())
        gathered.insert(result);
    for (Operation *op : ArrayRef(all.order).take_front(border + 1))
      if (!all.moved.contains(op))
        for (Value operand : op->getOperands())
          if (gathered.contains(views.getRoot(operand)))
            backwardSlot = all.positionOf(op) + 1;
  }

  static void sortBy(unsigned Transfer::*slot,
                     MutableArrayRef<Transfer> transfers) {
    llvm::stable_sort(transfers, [&](const Transfer &a, const Transfer &b) {
      return a.*slot < b.*slot;
    });
  }

  /// One behind the other, when they are ready. They are waited for where they
  /// are read, or when so many behind them have started.
  void scheduleInTurn(MutableArrayRef<Transfer> transfers, size_t inFlight) {
    for (Transfer &each : transfers)
      each.startSlot = getReadySlot(each.start);
    sortBy(&Transfer::startSlot, transfers);
    for (auto [i, each] : llvm::enumerate(transfers)) {
      each.waitSlot = each.firstUse;
      if (i + inFlight < transfers.size())
        each.waitSlot =
            std::min(each.waitSlot, transfers[i + inFlight].startSlot);
      each.waitSlot = std::max(each.waitSlot, each.startSlot);
    }
    noteWaits(transfers);
  }

  /// When they are ready, waited for where they are read.
  void scheduleEach(MutableArrayRef<Transfer> transfers) {
    for (Transfer &each : transfers) {
      each.startSlot = getReadySlot(each.start);
      each.waitSlot = std::max(each.firstUse, each.startSlot);
    }
    noteWaits(transfers);
  }

  void scheduleReductions() {
    link(all.downloads, all.replications);
    link(all.downloads, all.reductions);
    link(all.replications, all.reductions);
    scheduleInTurn(all.reductions, distances.reductionsInFlight);
    // Replicas add up what a reduction has left as soon as it is done. Their
    // memory is the shards' own: nothing is gained by an early wait.
    scheduleEach(all.replications);
    sortBy(&Transfer::startSlot, all.replications);
    // Of gradients to the host.
    scheduleInTurn(all.downloads, 1);
  }

  /// Transfers whose results only those behind them read are needed where
  /// theirs are.
  void link(ArrayRef<Transfer> behind, MutableArrayRef<Transfer> transfers) {
    llvm::DenseMap<Operation *, Transfer *> sources;
    for (Transfer &transfer : transfers)
      for (Operation *op : transfer.getWaitAndTails())
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
          llvm::any_of(transfer->getWaitAndTails(), [&](Operation *op) {
            return llvm::any_of(op->getUsers(), [&](Operation *user) {
              return !all.moved.contains(user);
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
      slot = std::max(slot, it != waitSlots.end() ? it->second
                            : all.moved.contains(source)
                                ? getOperandSlot(source)
                                : all.positionOf(source) + 1);
    }
    return slot;
  }

  void noteWaits(ArrayRef<Transfer> transfers) {
    for (const Transfer &transfer : transfers)
      for (Operation *op : transfer.getWaitAndTails())
        waitSlots[op] = transfer.waitSlot;
  }

  /// Of shards that are to be gathered: their waits stand in front of the
  /// gathers.
  void scheduleUploads() {
    llvm::DenseMap<Operation *, unsigned> earliest; // by wait
    for (auto [i, gather] : llvm::enumerate(all.gathers)) {
      unsigned slot = i == 0 ? 0 : all.gathers[i - 1].startSlot;
      slot = std::min(slot, gather.startSlot);
      for (Value shard : gather.start->getOperands())
        for (; shard; shard = getShardSideOperand(shard))
          if (getCopy(shard)) {
            auto [it, isNew] =
                earliest.try_emplace(shard.getDefiningOp(), slot);
            it->second = std::min(it->second, slot);
          }
    }
    for (Transfer &upload : all.uploads)
      upload.startSlot = earliest.lookup(upload.wait);
    sortBy(&Transfer::startSlot, all.uploads);
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
    for (Transfer &each : all.leaving) {
      each.startSlot = getReadySlot(each.start);
      flight += getBytes(each);
    }
    flight /= 8;
    sortBy(&Transfer::startSlot, all.leaving);
    unsigned last = border + 1;
    int64_t behind = 0; // bytes of the started ones in [i, next)
    size_t next = 0;
    for (size_t i = 0; i < all.leaving.size(); ++i) {
      while (next < all.leaving.size() && behind <= flight)
        behind += getBytes(all.leaving[next++]);
      unsigned end = behind > flight ? all.leaving[next - 1].startSlot : last;
      all.leaving[i].waitSlot =
          std::max(all.leaving[i].startSlot, std::min(last, end));
      behind -= getBytes(all.leaving[i]);
    }
    noteWaits(all.leaving);
    sortBy(&Transfer::firstUse, all.returning);
    int64_t ahead = 0; // bytes of those in [first, i)
    size_t first = 0;
    for (size_t i = 0; i < all.returning.size(); ++i) {
      while (ahead > flight)
        ahead -= getBytes(all.returning[first++]);
      Transfer &each = all.returning[i];
      unsigned begin = first == 0 ? last : all.returning[first - 1].waitSlot;
      each.startSlot =
          std::max(getReadySlot(each.start), std::min(each.firstUse, begin));
      each.waitSlot = std::max(each.firstUse, each.startSlot);
      ahead += getBytes(each);
    }
  }

  static int64_t getBytes(ArrayRef<Transfer> transfers) {
    int64_t bytes = 0;
    for (const Transfer &each : transfers)
      bytes += getBytes(each);
    return bytes;
  }

  /// Parameters go to the host at any time before their update. Forward takes
  /// as many of them as make its part of all bytes to the host its part of the
  /// step, so that gradients, which come when they come, find the bus free.
  void scheduleUpdated() {
    if (all.updated.empty())
      return;
    sortBy(&Transfer::firstUse, all.updated);
    unsigned end = std::max(all.updated.back().firstUse, border + 1);
    SmallVector<unsigned> computing; // slots in front of what stays in place
    int64_t forward = 0;             // of them
    for (unsigned slot = 0; slot < end; ++slot)
      if (!all.moved.contains(all.order[slot])) {
        computing.push_back(slot);
        forward += slot <= border;
      }
    auto count = int64_t(computing.size());
    int64_t bytes = getBytes(all.updated), leaving = getBytes(all.leaving);
    int64_t toHost = bytes + leaving + getBytes(all.downloads);
    int64_t before = std::clamp<int64_t>(
        toHost / std::max<int64_t>(count, 1) * forward - leaving, 0, bytes);
    int64_t sum = 0; // bytes in front of each
    for (Transfer &each : all.updated) {
      int64_t number = sum < before
                           ? forward * sum / before
                           : forward + (count - forward) * (sum - before) /
                                           std::max<int64_t>(bytes - before, 1);
      unsigned slot = number < count ? computing[size_t(number)] : end;
      each.startSlot = std::min(slot, each.firstUse);
      each.waitSlot = each.firstUse;
      sum += getBytes(each);
    }
  }

  void scheduleGathers() {
    sortBy(&Transfer::firstUse, all.gathers);
    auto *firstBackward =
        llvm::find_if(all.gathers, [&](const Transfer &gather) {
          return gather.firstUse > border;
        });
    schedulePhase({all.gathers.begin(), firstBackward}, 0);
    schedulePhase({firstBackward, all.gathers.end()}, backwardSlot);
  }

  void schedulePhase(MutableArrayRef<Transfer> phase, unsigned begin) {
    for (auto [i, gather] : llvm::enumerate(phase)) {
      gather.waitSlot = gather.firstUse;
      size_t ahead = distances.getPrefetch(gather.start);
      gather.startSlot = i < ahead ? begin : phase[i - ahead].waitSlot;
    }
    // They go one behind the other: nothing waits for what is needed later.
    unsigned next = all.order.size();
    for (Transfer &gather : llvm::reverse(phase)) {
      next = std::min({gather.startSlot, gather.waitSlot, next});
      gather.startSlot = std::max(next, getOperandSlot(gather.start));
    }
  }

  /// The first slot in which all operands that do not move along are there.
  unsigned getOperandSlot(Operation *op) const {
    unsigned slot = 0;
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp())
        slot = std::max(slot, all.moved.contains(source)
                                  ? getOperandSlot(source)
                                  : all.positionOf(source) + 1);
    return slot;
  }

  static void place(ArrayRef<Transfer> transfers, Slot::Ops Slot::*starts,
                    Slot::Ops Slot::*waits, MutableArrayRef<Slot> slots) {
    for (const Transfer &each : transfers) {
      (slots[each.startSlot].*starts).push_back(each.start);
      llvm::append_range(slots[each.waitSlot].*waits, each.getWaitAndTails());
    }
  }

  void writeBack() {
    std::vector<Slot> slots(all.order.size());
    place(all.reductions, &Slot::reduceStarts, &Slot::reduceWaits, slots);
    place(all.replications, &Slot::replicateStarts, &Slot::replicateWaits,
          slots);
    for (const auto *list : {&all.downloads, &all.leaving, &all.updated})
      place(*list, &Slot::downloadStarts, &Slot::downloadWaits, slots);
    // Their waits stand with the gathers.
    for (const Transfer &upload : all.uploads)
      slots[upload.startSlot].uploadStarts.push_back(upload.start);
    for (const auto *list : {&all.returning, &all.copies})
      place(*list, &Slot::copyStarts, &Slot::copyWaits, slots);
    place(all.gathers, &Slot::gatherStarts, &Slot::gatherWaits, slots);
    for (auto [slot, op] : llvm::zip_equal(slots, all.order)) {
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
      if (!all.moved.contains(op))
        scheduled.push_back(op);
    }
    // The terminator comes last in both orders.
    for (Operation *op : ArrayRef(scheduled).drop_back())
      op->moveBefore(scheduled.back());
  }

  void scheduleWithOperands(Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp();
          source && all.moved.contains(source) && placed.insert(source).second)
        scheduleWithOperands(source);
    scheduled.push_back(op);
  }

  func::FuncOp func;
  const Distances &distances;
  Views views;
  Transfers all;
  std::vector<Operation *> scheduled;
  llvm::DenseSet<Operation *> placed;
  llvm::DenseMap<Operation *, unsigned> waitSlots;
  unsigned border = 0, backwardSlot = 0;
};

struct ScheduleCollectives final
    : fsdp::impl::ScheduleCollectivesBase<ScheduleCollectives> {
  void runOnOperation() override {
    Distances distances(getOperation());
    if (failed(distances.verify()))
      return signalPassFailure();
    for (func::FuncOp func : getPrograms(getOperation())) {
      FailureOr<Transfers> transfers = collectTransfers(func.getBody().front());
      if (failed(transfers))
        return signalPassFailure();
      Scheduler(func, distances, std::move(*transfers)).run();
    }
  }
};

} // namespace
