//===- BucketCopies.cpp - One copy for a bucket ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"

#include "llvm/ADT/MapVector.h"

#include <tuple>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_BUCKETCOPIES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// What the members of one copy have in common: bucket, direction, and whether
/// they are copied as they were at the program's beginning, in their second
/// life, and to be gathered.
using CopyKey = std::tuple<Attribute, unsigned, unsigned, unsigned, unsigned>;

class CopyBucketer {
public:
  CopyBucketer(func::FuncOp func, const StateTable &states)
      : func(func), states(states), builder(func.getContext()) {}

  LogicalResult run() {
    for (Operation &op : func.getBody().front())
      positions.insert({&op, positions.size() + 1});
    llvm::MapVector<CopyKey, SmallVector<CopyOp>> groups;
    SmallVector<CopyOp> alone;
    for (auto copy : func.getOps<CopyOp>()) {
      StateOp state = states.lookup(copy.getOfAttr());
      if (!state) {
        alone.push_back(copy);
        continue;
      }
      if (!state.getBucket())
        return copy.emitOpError("expects to copy a parameter that has a "
                                "bucket, or its gradient; run "
                                "fsdp-assign-buckets first");
      groups[{state.getBucketAttr(), unsigned(copy.getTo()),
              isGiven(copy.getInput()), isReplayed(copy.getInput()),
              isReadByGathersOnly(copy)}]
          .push_back(copy);
    }
    for (auto &[key, copies] : groups) {
      auto bucket = cast<StringAttr>(std::get<0>(key));
      llvm::stable_sort(
          copies, [&](CopyOp a, CopyOp b) { return indexOf(a) < indexOf(b); });
      if (std::get<2>(key))
        fuseAtFirst(bucket, copies);
      else if (failed(fuseAtLast(bucket, copies)))
        return failure();
    }
    for (CopyOp copy : alone) {
      builder.setInsertionPoint(copy);
      finish(StringAttr(), copy);
    }
    return success();
  }

private:
  unsigned indexOf(CopyOp copy) const {
    return states.getIndex(states.lookup(copy.getOfAttr()));
  }

  unsigned positionOf(Operation *op) const { return positions.at(op); }

  /// What is there from the beginning is copied where it is first needed.
  void fuseAtFirst(StringAttr bucket, ArrayRef<CopyOp> copies) {
    Operation *first = *llvm::min_element(copies, [&](CopyOp a, CopyOp b) {
      return positionOf(a) < positionOf(b);
    });
    for (CopyOp copy : copies)
      for (Operation *op = copy.getInput().getDefiningOp();
           op && positionOf(op) > positionOf(first);
           op = op->getOperand(0).getDefiningOp())
        op->moveBefore(first);
    builder.setInsertionPoint(first);
    finish(bucket, copies);
  }

  /// What is computed is copied when all of it is there.
  LogicalResult fuseAtLast(StringAttr bucket, ArrayRef<CopyOp> copies) {
    Operation *last = *llvm::max_element(copies, [&](CopyOp a, CopyOp b) {
      return positionOf(a) < positionOf(b);
    });
    SmallVector<Operation *> ops(copies.begin(), copies.end());
    SmallVector<Operation *> moved =
        collectReaders(ops, [&](Operation *reader) {
          auto it = positions.find(reader);
          return it != positions.end() && it->second <= positionOf(last);
        });
    for (Operation *reader : moved)
      if (!isReductionTail(reader)) {
        InFlightDiagnostic diagnostic =
            reader->emitOpError("reads what is copied before all members of "
                                "the bucket '")
            << bucket.getValue() << "' are computed";
        diagnostic.attachNote(last->getLoc()) << "the last member";
        return diagnostic;
      }
    llvm::sort(moved, [&](Operation *a, Operation *b) {
      return positionOf(a) < positionOf(b);
    });
    builder.setInsertionPoint(last);
    Operation *end = finish(bucket, copies);
    for (Operation *tail : moved) {
      tail->moveAfter(end);
      end = tail;
    }
    return success();
  }

  Operation *finish(StringAttr bucket, ArrayRef<CopyOp> copies) {
    SmallVector<Value> inputs;
    SmallVector<Type> types;
    for (CopyOp copy : copies) {
      inputs.push_back(copy.getInput());
      types.push_back(copy.getResult().getType());
    }
    CopyOp any = copies.front();
    MemorySpace to = any.getTo();
    auto start = CopyStartOp::create(
        builder, any.getLoc(), FutureType::get(builder.getContext(), types),
        inputs, to, to == MemorySpace::Host ? Stream::Download : Stream::Upload,
        bucket);
    auto wait = WaitOp::create(builder, any.getLoc(), types, start.getFuture());
    for (auto [each, result] : llvm::zip_equal(copies, wait.getResults())) {
      CopyOp copy = each;
      copy.getResult().replaceAllUsesWith(result);
      copy.erase();
    }
    return wait;
  }

  func::FuncOp func;
  const StateTable &states;
  OpBuilder builder;
  llvm::DenseMap<Operation *, unsigned> positions;
};

struct BucketCopies final : fsdp::impl::BucketCopiesBase<BucketCopies> {
  void runOnOperation() override {
    StateTable states(getOperation());
    for (func::FuncOp func : getPrograms(getOperation()))
      if (failed(CopyBucketer(func, states).run()))
        return signalPassFailure();
  }
};

} // namespace
