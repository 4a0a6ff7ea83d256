//===- ScheduleTable.cpp - When each bucket moves, and why ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/ScheduleTable.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Outputs.h"
#include "passes/analysis/Phases.h"
#include "passes/analysis/SourcePlace.h"
#include "passes/analysis/Transfers.h"
#include "passes/emit/PlanEnums.h"

using namespace mlir;
using namespace fsdp;

namespace {
class Lister {
public:
  explicit Lister(func::FuncOp program) : phases(getPhases(program)) {
    for (Operation &op : program.getBody().front()) {
      positions[&op] = static_cast<int64_t>(ops.size());
      ops.push_back(&op);
    }
  }

  std::vector<TransferRow> run() {
    std::vector<TransferRow> rows;
    for (Operation *op : ops)
      if (auto start = dyn_cast<StartOpInterface>(op))
        rows.push_back(describe(start));
    return rows;
  }

private:
  /// Work of the model or the optimizer: no transfer, nothing that only changes
  /// how a tensor is looked at or moved.
  static bool isComputation(Operation *op) {
    if (isa<UpdateOp, DrawOp, KernelOp>(op))
      return true;
    if (op->getName().getDialectNamespace() != "aten")
      return false;
    // What stands between a shard and its gather belongs to the gather.
    return !(isShardSide(op) && op->hasOneUse() &&
             (isa<StartOpInterface>(*op->user_begin()) ||
              isShardSide(*op->user_begin())));
  }

  static std::string name(Operation *op) {
    StringRef text = op->getName().getStringRef();
    text = text.split('.').second.split('.').first;
    StringRef module = SourcePlace(op->getLoc()).module;
    return module.empty() ? text.str() : (module + " (" + text + ")").str();
  }

  std::string nameBefore(int64_t position) const {
    for (int64_t i = position - 1; i >= 0; --i)
      if (isComputation(ops[i]))
        return name(ops[i]);
    return "the begin";
  }

  std::string nameFrom(int64_t position) const {
    for (size_t i = static_cast<size_t>(position); i < ops.size(); ++i)
      if (isComputation(ops[i]))
        return name(ops[i]);
    return "the end";
  }

  static bool isAgain(StartOpInterface start) {
    return llvm::any_of(start.getInputs(), isReplayed);
  }

  std::string getPhase(int64_t position) const {
    for (const Phase &phase : phases)
      if (position >= phase.begin && position < phase.end)
        return phase.name.str();
    return phases.back().name.str();
  }

  /// Where what arrives is freed.
  std::string getFree(Operation *wait) const {
    int64_t last = -1;
    SmallVector<Value> arrived(wait->getResults());
    // Copies out of one tensor, and turned ones, are freed instead of it.
    for (size_t i = 0; i < arrived.size(); ++i)
      for (Operation *user : arrived[i].getUsers()) {
        if (isa<FreeOp>(user))
          last = std::max(last, positions.at(user));
        else if (isa<WaitOp>(arrived[i].getDefiningOp()) &&
                 user->getNumOperands() == 1)
          llvm::append_range(arrived, user->getResults());
      }
    return last < 0 ? std::string() : nameBefore(last);
  }

  /// Computations between `start` and `wait`, and the first and last module.
  void describeBeside(int64_t start, int64_t wait, TransferRow &row) const {
    std::string first, last;
    for (int64_t i = start + 1; i < wait; ++i) {
      if (!isComputation(ops[i]))
        continue;
      ++row.beside;
      last = SourcePlace(ops[i]->getLoc()).module.str();
      if (first.empty())
        first = last;
    }
    row.besideModules = first == last ? first : first + " … " + last;
  }

  /// The wait for another gather that `position` follows at once: its bucket
  /// was needed, and this one is the next.
  std::string getOccasion(int64_t position) const {
    for (size_t i = static_cast<size_t>(position) + 1; i < ops.size(); ++i) {
      if (auto wait = dyn_cast<WaitOp>(ops[i]))
        if (StartOp start = asStart(wait.getStart(), Collective::AllGather))
          return start.getBucket().value_or("").str();
      if (isComputation(ops[i]))
        break;
    }
    return {};
  }

  /// Whether gathers read what an op leaves.
  static bool feedsGather(Operation *op) {
    return llvm::any_of(op->getUsers(), [](Operation *user) {
      return isStart(user, Collective::AllGather) ||
             ((isShardSide(user) || isa<PackOp>(user)) && feedsGather(user));
    });
  }

  static std::string explainCopy(CopyStartOp copy, Operation *wait,
                                 const TransferRow &row) {
    bool isAway = llvm::all_of(
        copy.getInputs(), [](Value input) { return bool(getCopy(input)); });
    if (copy.getTo() == MemorySpace::Device && isAway)
      return row.beside == 0 ? "it is needed at once"
                             : "prefetch: an eighth of what left may be on "
                               "its way";
    if (copy.getTo() == MemorySpace::Host || row.bucket.empty())
      return "it is there";
    if (feedsGather(wait))
      return "the gather before its own starts";
    return row.start == "the begin" ? "nothing comes before it"
           : row.beside == 0        ? "it is needed at once"
                                    : "prefetch";
  }

  std::string explain(Operation *start, Operation *wait, int64_t position,
                      const TransferRow &row) const {
    if (auto copy = dyn_cast<CopyStartOp>(start))
      return explainCopy(copy, wait, row);
    if (isStart(start, Collective::Rotate))
      return "attention computes with what came before";
    if (!isStart(start, Collective::AllGather))
      return row.kind == "reduce" || row.kind == "exchange"
                 ? "its last gradient is there"
                 : "what it adds up is there";
    std::string occasion = getOccasion(position);
    if (!occasion.empty() && occasion != row.bucket)
      return "prefetch: '" + occasion + "' is about to be used";
    if (row.kind == "regather")
      return occasion == row.bucket ? "it is needed at once"
                                    : "prefetch: forward needs no more";
    return row.start == "the begin" ? "nothing comes before it"
           : occasion == row.bucket ? "it is needed at once"
                                    : "prefetch";
  }

  /// Gathers are for what waits for them, all others of what came before.
  Location getPlace(Operation *start, int64_t position, int64_t until) const {
    if (isStart(start, Collective::AllGather))
      for (size_t i = static_cast<size_t>(until); i < ops.size(); ++i)
        if (isComputation(ops[i]))
          return ops[i]->getLoc();
    for (int64_t i = position - 1; i >= 0; --i)
      if (isComputation(ops[i]))
        return ops[i]->getLoc();
    return start->getLoc();
  }

  static std::string getKind(StartOpInterface start) {
    if (auto copy = dyn_cast<CopyStartOp>(start.getOperation()))
      return stringifyStream(copy.getStream()).str();
    auto moved = cast<StartOp>(start);
    if (moved.getKind() == Collective::AllGather && isAgain(start))
      return "regather";
    if (moved.getKind() != Collective::AllReduce)
      return getVerb(moved.getKind()).str();
    return moved.getPurpose() == Purpose::Metric    ? "metrics"
           : moved.getBucketAttr() == kMaximaBucket ? "maxima"
                                                    : "replicate";
  }

  TransferRow describe(StartOpInterface start) {
    int64_t position = positions.at(start);
    TransferRow row(start.getLoc());
    StringAttr bucket = start.getBucketAttr();
    row.bucket = bucket ? bucket.str() : "";
    row.kind = getKind(start);
    row.phase = getPhase(position);
    row.bytes = getTraffic(start);
    row.start = nameBefore(position);
    Operation *wait = *start.getFuture().user_begin();
    int64_t until = positions.at(wait);
    row.wait = nameFrom(until);
    describeBeside(position, until, row);
    if (isStart(start, Collective::AllGather))
      row.free = getFree(wait);
    row.why = explain(start, wait, position, row);
    row.place = getPlace(start, position, until);
    return row;
  }

  SmallVector<Phase, 3> phases;
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, int64_t> positions;
};
} // namespace

int64_t fsdp::getTraffic(StartOpInterface start) {
  if (isa<CopyStartOp>(start)) {
    int64_t bytes = 0;
    for (Type type : start.getPromised())
      bytes += aten::getStorageBytes(cast<RankedTensorType>(type));
    return bytes;
  }
  CollectiveKind kind = toPlan(cast<StartOp>(start).getKind());
  uint64_t bytes = 0;
  for (auto [input, type] :
       llvm::zip_equal(start.getInputs(), start.getPromised())) {
    auto wire = cast<RankedTensorType>(input.getType());
    auto got = cast<RankedTensorType>(type).clone(wire.getElementType());
    bytes +=
        getTraffic(kind, static_cast<uint64_t>(aten::getStorageBytes(wire)),
                   static_cast<uint64_t>(aten::getStorageBytes(got)),
                   static_cast<uint64_t>(start.getGroup().getSize()));
  }
  return static_cast<int64_t>(bytes);
}

std::vector<TransferRow> fsdp::listTransfers(func::FuncOp program) {
  return Lister(program).run();
}
