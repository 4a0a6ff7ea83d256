//===- FuseKernels.cpp - Operators that follow each other as one ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/Programs.h"
#include "passes/kernels/AddProducts.h"
#include "passes/kernels/MakeKernel.h"
#include "passes/kernels/PeakLimit.h"
#include "passes/kernels/Program.h"
#include "passes/kernels/PullProducers.h"
#include "passes/kernels/SpellLosses.h"
#include "passes/kernels/SpellNorms.h"
#include "passes/kernels/SplitUpdates.h"
#include "support/Format.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_FUSEKERNELS
#include "passes/Passes.h.inc"
} // namespace fsdp

using Groups = SmallVector<KernelGroup, 0>;

/// Bytes of what operators of `group` make and nobody else reads.
static int64_t countInner(const KernelGroup &group) {
  int64_t bytes = 0;
  for (Operation *op : group.ops)
    for (Value result : op->getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType());
          type && !llvm::is_contained(group.results, result))
        bytes += aten::getStorageBytes(type);
  return bytes;
}

namespace {
/// What a remark says.
struct MadeKernel {
  Location loc;
  std::string text;
};
} // namespace

static MadeKernel describe(const KernelGroup &group) {
  return {group.place->getLoc(),
          std::to_string(group.ops.size()) + " operators (" +
              nameKernel(group.ops) + ") are one kernel: " +
              formatBytes(static_cast<uint64_t>(countInner(group))) +
              " between them are in no memory"};
}

static void tell(func::FuncOp program, const MadeKernel &made) {
  remark::passed(made.loc, nameDecision("kernels", "Fused", program))
      << made.text << remark::reason("{0}", "kernels: on");
}

static void tellAdded(func::FuncOp program, Location product) {
  remark::passed(product, nameDecision("kernels", "Added", program))
      << "the product adds to the other summand while it is computed, in its "
         "place"
      << remark::reason("{0}", "kernels: on");
}

/// The same groups of a copy of their program.
static Groups mapGroups(const Groups &groups, IRMapping &mapping) {
  Groups mapped;
  for (const KernelGroup &group : groups) {
    KernelGroup &copy = mapped.emplace_back();
    for (Operation *op : group.ops)
      copy.ops.push_back(mapping.lookup(op));
    for (Operation *view : group.views)
      copy.views.push_back(mapping.lookup(view));
    for (Value result : group.results)
      copy.results.push_back(mapping.lookup(result));
    copy.place = mapping.lookup(group.place);
  }
  return mapped;
}

namespace {
struct FuseKernels : fsdp::impl::FuseKernelsBase<FuseKernels> {
  void runOnOperation() override {
    if (getSetting<StepAttr>(getOperation()).getKernels())
      for (func::FuncOp program : getPrograms(getOperation()))
        fuse(program);
  }

  /// What of a program's operators becomes others before they are kernels.
  struct Spelling {
    bool adds;   ///< products add: sums are no kernels' any more
    bool splits; ///< updates are kernels': their rates are there all the time
    bool joins;  ///< norms are summed at once: sums of rows live until then
  };

  /// The first way that leaves no higher peak; else as it was.
  static void fuse(func::FuncOp program) {
    PeakLimit limit(program);
    for (Spelling way :
         {Spelling{true, true, true}, Spelling{true, true, false},
          Spelling{false, true, false}, Spelling{false, false, false}}) {
      SmallVector<Location> products;
      if (way.adds)
        products = addProducts(program);
      spellNorms(program, way.joins);
      spellLosses(program);
      if (way.splits)
        splitUpdates(program);
      auto made = makeKernels(program, limit.bytes());
      // What is spelled is so for kernels.
      if (made && program.getOps<KernelOp>().empty()) {
        limit.restore(program);
        products = way.adds ? addProducts(program) : SmallVector<Location>();
      }
      if (made && limit.holds(program)) {
        for (Location product : products)
          tellAdded(program, product);
        for (const MadeKernel &each : *made)
          tell(program, each);
        program.walk([](Operation *op) { op->removeAttr(kAgainAttr); });
        return;
      }
      limit.restore(program);
    }
  }

  /// Makes groups kernels, but for those that leave the program a higher peak:
  /// an operand may be reused by one operator of several, and by no kernel.
  /// What there is to tell; nothing: there are no kernels.
  static std::optional<std::vector<MadeKernel>>
  makeKernels(func::FuncOp program, int64_t limit) {
    Groups groups = settle(program, pullProducers(program));
    constexpr size_t kMostTries = 8;
    for (size_t i = 0; i < kMostTries; ++i) {
      IRMapping mapping;
      OwningOpRef<func::FuncOp> before =
          cast<func::FuncOp>(program->clone(mapping));
      Groups next = mapGroups(groups, mapping);
      SmallVector<Operation *> kernels;
      for (const KernelGroup &group : groups)
        kernels.push_back(makeKernel(group));
      joinUpdates(program);
      auto [peak, time] = findHighest(program);
      if (peak <= limit) {
        std::vector<MadeKernel> made;
        if (wantsRemarks(program))
          for (const KernelGroup &group : next)
            made.push_back(describe(group));
        return made;
      }
      if (groups.empty())
        break;
      next.erase(next.begin() + ptrdiff_t(findNearest(program, kernels, time)));
      program.getBody().takeBody(before->getBody());
      groups = std::move(next);
    }
    return std::nullopt;
  }

  /// The groups that there are then. What is computed again and does not stay
  /// inside of a kernel was pulled in vain.
  static Groups settle(func::FuncOp program, ArrayRef<PulledResult> all) {
    Groups groups = KernelGroups(program).take();
    if (all.empty())
      return groups;
    DenseSet<Operation *> inside;
    for (const KernelGroup &group : groups)
      for (Operation *op : group.ops)
        if (llvm::none_of(op->getResults(), [&](Value result) {
              return llvm::is_contained(group.results, result);
            }))
          inside.insert(op);
    // What lives on for one reader may as well be read by all.
    DenseSet<Value> kept;
    for (const PulledResult &pulled : all)
      if (!llvm::all_of(pulled.ops, [&](Operation *op) {
            return inside.contains(op) || isKernelView(op);
          }))
        kept.insert(pulled.original);
    for (const PulledResult &pulled : all)
      if (kept.contains(pulled.original))
        pushBack(pulled);
    dropUnread(program);
    return KernelGroups(program).take();
  }
};
} // namespace
