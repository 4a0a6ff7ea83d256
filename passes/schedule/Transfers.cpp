//===- Transfers.cpp - What a schedule may move ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/schedule/Transfers.h"

#include "ir/aten/Matchers.h"
#include "passes/analysis/Transfers.h"

using namespace mlir;
using namespace fsdp;

SmallVector<Operation *> Transfer::getWaitAndTails() const {
  SmallVector<Operation *> ops{wait};
  llvm::append_range(ops, tails);
  return ops;
}

/// Whether all that a copy moves was given to the program.
static bool movesGiven(CopyStartOp copy) {
  return llvm::all_of(copy.getInputs(), isGiven);
}

/// Whether what is copied to the host is only copied back.
static bool isLeaving(CopyStartOp copy) {
  auto wait = cast<WaitOp>(*copy.getFuture().user_begin());
  return !copy.getBucketAttr() && copy.getTo() == MemorySpace::Host &&
         llvm::all_of(wait->getUsers(), llvm::IsaPred<CopyStartOp>);
}

/// Of a bucket's gradients, or of the parameters that they update.
static bool isOfBucketToHost(CopyStartOp copy) {
  return copy.getBucketAttr() && copy.getTo() == MemorySpace::Host;
}

/// Of gradients.
static bool isDownload(Operation *op) {
  auto copy = dyn_cast<CopyStartOp>(op);
  return copy && isOfBucketToHost(copy) && !movesGiven(copy);
}

static bool isOfGradient(Operation *op) {
  auto start = asStart(op, Collective::AllReduce);
  return start && start.getOf();
}

namespace {

class Collector {
public:
  explicit Collector(Block &body) {
    for (Operation &op : body) {
      out.positions[&op] = out.order.size();
      out.order.push_back(&op);
    }
  }

  FailureOr<Transfers> run() {
    for (Operation *op : out.order) {
      auto start = dyn_cast<StartOpInterface>(op);
      if (!start || (start.isInPlace() && !isOfGradient(op)) || isOfStep(op))
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
      if (isStart(op, Collective::AllGather)) {
        transfer.firstUse = findFirstUse(transfer);
        collectShardSide(op);
        out.gathers.push_back(transfer);
        continue;
      }
      collectTails(transfer);
      transfer.firstUse = findFirstUse(transfer);
      if (isStart(op, Collective::AllReduce))
        out.replications.push_back(std::move(transfer));
      else if (llvm::none_of(op->getOperands(), [](Value value) {
                 StartOpInterface before = getTransfer(value);
                 return before && !isOfStep(before);
               }))
        out.reductions.push_back(std::move(transfer));
    }
    for (const auto *list : {&out.gathers, &out.reductions, &out.replications,
                             &out.uploads, &out.downloads, &out.updated,
                             &out.leaving, &out.returning, &out.copies})
      for (const Transfer &transfer : *list) {
        out.moved.insert(transfer.start);
        out.moved.insert(transfer.wait);
        out.moved.insert(transfer.tails.begin(), transfer.tails.end());
      }
    return std::move(out);
  }

private:
  void collectCopy(CopyStartOp copy, Transfer transfer) {
    if (copy.getBucketAttr() && copy.getTo() == MemorySpace::Device &&
        movesGiven(copy)) {
      collectShardSide(copy);
      if (isReadByGathersOnly(transfer.wait)) {
        out.uploads.push_back(std::move(transfer));
        return;
      }
      transfer.firstUse = findFirstUse(transfer);
      out.gathers.push_back(std::move(transfer));
      return;
    }
    if (isLeaving(copy)) {
      out.leaving.push_back(std::move(transfer));
      return;
    }
    if (llvm::all_of(copy.getInputs(), [](Value input) {
          CopyStartOp away = getCopy(input);
          return away && isLeaving(away);
        })) {
      transfer.firstUse = findFirstUse(transfer);
      out.returning.push_back(std::move(transfer));
      return;
    }
    bool isOfGradients = isDownload(copy);
    if (isOfGradients)
      collectTails(transfer);
    transfer.firstUse = findFirstUse(transfer);
    (isOfGradients            ? out.downloads
     : isOfBucketToHost(copy) ? out.updated
                              : out.copies)
        .push_back(std::move(transfer));
  }

  /// Everything that reads the wait's results through casts and sums only.
  void collectTails(Transfer &transfer) const {
    for (Operation *tail : collectReaders({transfer.wait}, isReductionTail))
      transfer.tails.push_back(tail);
    // Of gradients that leave the device the norm is computed before.
    llvm::SmallPtrSet<Operation *, 8> sources(transfer.tails.begin(),
                                              transfer.tails.end());
    sources.insert(transfer.wait);
    llvm::SmallSetVector<Operation *, 8> norms;
    for (Operation *source : sources)
      for (Operation *reader : source->getUsers())
        if (aten::isNorm(reader) &&
            llvm::all_of(reader->getOperands(), [&](Value operand) {
              return sources.contains(operand.getDefiningOp()) &&
                     llvm::any_of(operand.getUsers(), isDownload);
            }))
          norms.insert(reader);
    llvm::append_range(transfer.tails, norms);
    llvm::sort(transfer.tails, [&](Operation *a, Operation *b) {
      return out.positionOf(a) < out.positionOf(b);
    });
  }

  /// The first op that reads the results and stays where it is.
  unsigned findFirstUse(const Transfer &transfer) const {
    unsigned first = out.order.size();
    auto visit = [&](Operation *op) {
      for (Operation *user : op->getUsers())
        if (!llvm::is_contained(transfer.tails, user) && !isOfGradient(user) &&
            !isDownload(user))
          first = std::min(first, out.positionOf(user));
    };
    visit(transfer.wait);
    llvm::for_each(transfer.tails, visit);
    bool isRead = first != out.order.size();
    return isRead ? first : out.positionOf(transfer.wait);
  }

  /// Casts and replays that only gathers and copies read move with them.
  void collectShardSide(Operation *start) {
    SmallVector<Operation *> worklist{start};
    while (!worklist.empty())
      for (Value operand : worklist.pop_back_val()->getOperands()) {
        Operation *op = operand.getDefiningOp();
        if (op && isShardSide(op) && isReadByGathersOnly(op) &&
            out.moved.insert(op).second)
          worklist.push_back(op);
      }
  }

  Transfers out;
};

} // namespace

FailureOr<Transfers> fsdp::collectTransfers(Block &body) {
  return Collector(body).run();
}
