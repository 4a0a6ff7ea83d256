//===- OffloadActivations.cpp - What backward reads waits on the host -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Memories.h"
#include "passes/analysis/ModulePaths.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/SecondLife.h"
#include "passes/analysis/SourcePlace.h"
#include "passes/analysis/Transfers.h"
#include "passes/analysis/Views.h"
#include "support/Format.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_OFFLOADACTIVATIONS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// A copy of less takes as long as one of so many bytes.
constexpr int64_t kLeastBytes = 1024;

/// A tensor that forward makes and backward reads.
struct Kept {
  Value value;
  unsigned lastRead; ///< in forward
  int64_t bytes;
};

class ActivationOffloader {
public:
  ActivationOffloader(func::FuncOp func, OffloadAttr told)
      : func(func), told(told), memories(func) {
    for (auto [i, op] : llvm::enumerate(func.getBody().front()))
      positions[&op] = i;
  }

  void run() {
    Operation *last = ForwardSlice(func).getLast();
    if (!last)
      return;
    border = positions.at(last);
    SmallVector<Kept> kept = collect();
    llvm::stable_sort(kept, [](const Kept &a, const Kept &b) {
      return a.lastRead < b.lastRead;
    });
    int64_t total = 0, left = 0;
    for (const Kept &each : kept)
      total += each.bytes;
    // What would leave last is wanted first.
    int64_t stays = total / kFlightPart;
    SmallVector<Kept> staying;
    while (!kept.empty() && left + kept.back().bytes <= stays) {
      left += kept.back().bytes;
      staying.push_back(kept.pop_back_val());
    }
    if (wantsRemarks(func))
      explain(kept, staying);
    for (const Kept &each : kept)
      offload(each.value);
  }

private:
  /// As much of all stays as is on its way at once.
  static constexpr int64_t kFlightPart = 8;

  static bool isViewOf(OpResult result, Value value) {
    return getViewSource(result) == value;
  }

  /// The last op of forward that reads `value` or a view of it, and whether one
  /// of backward does; nothing if it is a result of the program.
  bool findReads(Value value, Kept &kept, bool &inBackward) const {
    for (Operation *user : value.getUsers()) {
      if (user->hasTrait<OpTrait::IsTerminator>())
        return false;
      unsigned position = positions.at(user);
      if (position > border) {
        inBackward = true;
        continue;
      }
      kept.lastRead = std::max(kept.lastRead, position);
      for (OpResult result : user->getResults())
        if (isViewOf(result, value) && !findReads(result, kept, inBackward))
          return false;
    }
    return true;
  }

  /// Whether `op` makes a parameter's data anew, which costs no memory in
  /// between.
  static bool isOfParameter(Operation &op) {
    auto isRemade = [](Operation *op) {
      return aten::isCast(op) || aten::isClone(op) || isa<EncodeOp>(op);
    };
    if (!isRemade(&op))
      return false;
    for (Value value = op.getOperand(0);;) {
      Operation *source = value.getDefiningOp();
      if (isOfStep(source))
        return false;
      if (!source ||
          isa<AllGatherOp, CopyOp, ReplayOp, UnpackOp, DequantizeOp>(source))
        return true;
      if (isRemade(source)) {
        value = source->getOperand(0);
        continue;
      }
      auto result = cast<OpResult>(value);
      value = getViewSource(result);
      if (!value)
        return false;
    }
  }

  std::optional<StringRef> findMeant(Operation &op) const {
    return findAround(SourcePlace(op.getLoc()).module, [&](StringRef at) {
      return matchesAny(told.getActivations(), at);
    });
  }
  bool isMeant(Operation &op) const { return findMeant(op).has_value(); }

  /// Block by block.
  void explain(ArrayRef<Kept> leaving, ArrayRef<Kept> staying) const {
    struct Sum {
      Operation *first = nullptr;
      uint64_t leaving = 0, staying = 0;
      unsigned tensors = 0;
    };
    llvm::MapVector<StringRef, Sum> sums;
    auto sumOf = [&](const Kept &kept) -> Sum & {
      Operation *op = kept.value.getDefiningOp();
      Sum &sum = sums[*findMeant(*op)];
      if (!sum.first || op->isBeforeInBlock(sum.first))
        sum.first = op;
      return sum;
    };
    for (const Kept &kept : leaving) {
      Sum &sum = sumOf(kept);
      sum.leaving += static_cast<uint64_t>(kept.bytes);
      ++sum.tensors;
    }
    for (const Kept &kept : staying)
      sumOf(kept).staying += static_cast<uint64_t>(kept.bytes);
    for (const auto &[module, sum] : sums) {
      Location location = getModuleLocation(module, sum.first);
      // Of an op that no module has, the path is empty.
      std::string whose =
          module.empty() ? "the model" : "'" + module.str() + "'";
      if (sum.leaving != 0)
        remark::passed(location, nameDecision("offload", "Offloaded", func))
            << (std::to_string(sum.tensors) + " activations of " + whose +
                ", " + formatBytes(sum.leaving) +
                ", wait for backward in the host's memory")
            << remark::reason("{0}", "activation_offloading names it");
      if (sum.staying != 0)
        remark::missed(location, nameDecision("offload", "Stays", func))
            << (formatBytes(sum.staying) + " of " + whose +
                " stay on the device")
            << remark::reason("{0}",
                              "they would leave last and are wanted first: as "
                              "much stays as is on its way at once");
    }
  }

  SmallVector<Kept> collect() {
    SmallVector<Kept> all;
    for (Operation &op : func.getBody().front()) {
      if (positions.at(&op) > border)
        break;
      bool isComputed = op.getName().getDialectNamespace() == "aten" ||
                        isa<DrawOp, EncodeOp>(op);
      if (!isComputed || memories.isHostOp(&op) || isOfParameter(op) ||
          !isMeant(op))
        continue;
      for (OpResult result : op.getResults()) {
        auto type = dyn_cast<RankedTensorType>(result.getType());
        if (!type || getViewSource(result) || !aten::isContiguous(type))
          continue;
        Kept kept{result, positions.at(&op), aten::getStorageBytes(type)};
        bool inBackward = false;
        if (kept.bytes >= kLeastBytes && findReads(result, kept, inBackward) &&
            inBackward)
          all.push_back(kept);
      }
    }
    return all;
  }

  void offload(Value value) {
    giveSecondLife(
        value, positions, border,
        [&](OpBuilder &builder, Operation *lastRead) -> Value {
          OpBuilder behind(lastRead->getContext());
          behind.setInsertionPointAfter(lastRead);
          Value away =
              CopyOp::create(behind, value.getLoc(), value.getType(), value,
                             MemorySpace::Host, FlatSymbolRefAttr());
          return CopyOp::create(builder, value.getLoc(), value.getType(), away,
                                MemorySpace::Device, FlatSymbolRefAttr());
        },
        /*isComputed=*/true);
  }

  func::FuncOp func;
  OffloadAttr told;
  Memories memories;
  llvm::DenseMap<Operation *, unsigned> positions;
  unsigned border = 0;
};

struct OffloadActivations final
    : fsdp::impl::OffloadActivationsBase<OffloadActivations> {
  void runOnOperation() override {
    auto told = getSetting<OffloadAttr>(getOperation());
    if (getTexts(told.getActivations()).empty())
      return;
    for (func::FuncOp func : getPrograms(getOperation()))
      if (!isInference(func))
        ActivationOffloader(func, told).run();
  }
};

} // namespace
