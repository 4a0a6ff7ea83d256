//===- VerifyScheduled.cpp - The contract of a scheduled program ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Memories.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"
#include "passes/analysis/Views.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYSCHEDULED
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Follows one program in order. Storage, not values, is tracked, so that a
/// view of a freed tensor is found.
class ScheduleVerifier {
public:
  ScheduleVerifier(func::FuncOp func, const StateTable &states)
      : body(func.getBody().front()), views(body), kept(getKept(func, states)) {
  }

  LogicalResult verify() {
    for (Operation &op : body)
      if (failed(visit(op)))
        return failure();
    for (auto [future, start] : pending)
      return start->emitOpError("is never waited for; expected one fsdp.wait");
    for (auto [tensor, wait] : gathered)
      if (!freed.contains(tensor))
        return wait->emitOpError(
            "yields a gathered tensor that is never freed; "
            "expected fsdp.free after its last use");
    return success();
  }

private:
  LogicalResult visit(Operation &op) {
    auto start = dyn_cast<StartOpInterface>(op);
    if (isa<CopyOp>(op) || (isa<CollectiveOpInterface>(op) && !start))
      return op.emitOpError("is logical; expected a start and a wait");
    if (failed(verifyRegions(op)))
      return failure();
    if (auto free = dyn_cast<FreeOp>(op))
      return visitFree(free);
    for (Value operand : op.getOperands())
      if (failed(verifyRead(op, operand)))
        return failure();
    if (start) {
      pending[start.getFuture()] = &op;
      for (Value input : start.getInputs())
        inFlight[views.getRoot(input)].push_back(&op);
    }
    if (auto wait = dyn_cast<WaitOp>(op))
      return visitWait(wait);
    return success();
  }

  // Ranks might disagree on whether a region runs.
  static LogicalResult verifyRegions(Operation &op) {
    for (Region &region : op.getRegions()) {
      Operation *inner = nullptr;
      region.walk([&](Operation *each) {
        if (!inner && isa<CollectiveOpInterface>(each))
          inner = each;
      });
      if (inner)
        return inner->emitOpError("is in a region; expected collectives at the "
                                  "top level, where all ranks reach them");
    }
    return success();
  }

  LogicalResult verifyRead(Operation &op, Value operand) const {
    Value root = views.getRoot(operand);
    auto it = freed.find(root);
    if (it == freed.end())
      return success();
    InFlightDiagnostic diagnostic =
        op.emitOpError("reads a tensor that was freed");
    diagnostic.attachNote(it->second->getLoc()) << "freed here";
    if (root != operand)
      diagnostic.attachNote(operand.getLoc()) << "read through this view";
    return diagnostic;
  }

  LogicalResult visitFree(FreeOp free) {
    for (Value tensor : free.getTensors()) {
      Value root = views.getRoot(tensor);
      if (auto it = freed.find(root); it != freed.end()) {
        InFlightDiagnostic diagnostic =
            free.emitOpError("frees a tensor that was freed already");
        diagnostic.attachNote(it->second->getLoc()) << "freed here";
        return diagnostic;
      }
      if (auto it = inFlight.find(root);
          it != inFlight.end() && !it->second.empty()) {
        InFlightDiagnostic diagnostic =
            free.emitOpError("frees a tensor that a transfer still reads");
        diagnostic.attachNote(it->second.front()->getLoc())
            << "the transfer starts here";
        return diagnostic;
      }
      freed[root] = free;
    }
    return success();
  }

  LogicalResult visitWait(WaitOp wait) {
    if (auto it = waited.find(wait.getFuture()); it != waited.end()) {
      InFlightDiagnostic diagnostic =
          wait.emitOpError("waits for a future for the second time");
      diagnostic.attachNote(it->second->getLoc()) << "first wait here";
      return diagnostic;
    }
    waited[wait.getFuture()] = wait;
    pending.erase(wait.getFuture());
    StartOpInterface start = wait.getStart();
    if (!start)
      return wait.emitOpError("expects the future of a start");
    for (Value input : start.getInputs())
      llvm::erase(inFlight[views.getRoot(input)], start.getOperation());
    if (isStart(start, Collective::AllGather) && !isOfStep(start))
      for (Value result : wait.getResults())
        if (!kept.contains(result))
          gathered[result] = wait;
    return success();
  }

  Block &body;
  Views views;
  llvm::DenseSet<Value> kept;
  llvm::MapVector<Value, Operation *> pending, gathered;
  llvm::DenseMap<Value, Operation *> waited, freed;
  llvm::DenseMap<Value, SmallVector<Operation *, 1>> inFlight;
};

struct VerifyScheduled final
    : fsdp::impl::VerifyScheduledBase<VerifyScheduled> {
  void runOnOperation() override {
    StateTable states(getOperation());
    for (func::FuncOp func : getPrograms(getOperation()))
      if (failed(verifyMemories(func)) ||
          failed(ScheduleVerifier(func, states).verify()))
        return signalPassFailure();
  }
};

} // namespace
