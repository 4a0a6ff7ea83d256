//===- PlanMemory.cpp - Give every tensor its address ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Liveness.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/ScratchBound.h"
#include "passes/plan/MemoryUse.h"
#include "passes/plan/Packing.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct PlanMemory : fsdp::impl::PlanMemoryBase<PlanMemory> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    int64_t states = placeStates(module);
    MemoryUse use = getStatesUse(module);
    int64_t top = states, highest = -1;
    for (func::FuncOp program : getPrograms(module)) {
      Placement placement = choose(program);
      Liveness liveness(program);
      top = std::max(top, place(program, liveness, placement, states));
      TransientUse transient = getPeak(getLiveCurve(liveness)).use;
      if (transient.total() > highest) {
        highest = transient.total();
        use.transient = transient;
      }
    }
    use.scratchBound = getScratchBound(module);
    use.states = states;
    use.peak = top;
    for (auto state : module.getOps<StateOp>()) {
      int64_t bytes = aten::getStorageBytes(state.getLocalType());
      if (state.getRole() == Role::Gradient)
        use.transient.grads += bytes;
      else if (state.getRole() == Role::Gathered)
        use.transient.gathered += bytes;
    }
    module->setAttr(kMemoryAttr, use.toAttribute(&getContext()));
  }

  /// Addresses of the states. Returns where transient tensors begin.
  static int64_t placeStates(ModuleOp module) {
    auto bytesOf = [](StateOp state) {
      return aten::getStorageBytes(state.getLocalType());
    };
    // Those that need most alignment first, so that there are no gaps between.
    SmallVector<StateOp> states(module.getOps<StateOp>());
    // Parts of flat states lie in these.
    llvm::erase_if(states, [](StateOp state) { return bool(state.getPart()); });
    llvm::stable_sort(states, [&](StateOp a, StateOp b) {
      return getAlignment(bytesOf(a)) > getAlignment(bytesOf(b));
    });
    int64_t end = 0;
    for (StateOp state : states) {
      state.setAt(end);
      end += alignUp(bytesOf(state));
    }
    return roundUp(end, kAlignment);
  }

  /// The transient storages, by index, and where they lie to each other.
  struct Placement {
    SmallVector<unsigned> transients;
    Packing packing;
  };

  Placement getPlacement(const Liveness &liveness) const {
    Placement placement;
    SmallVector<Interval> intervals;
    for (auto [index, storage] : llvm::enumerate(liveness.getStorages()))
      if (storage.kind != StorageKind::State && !liveness.isMerged(index)) {
        placement.transients.push_back(index);
        intervals.push_back({storage.bytes, storage.first, storage.last});
      }
    PackingLimits limits;
    limits.greedyBuffers = sizeLimit;
    limits.searchWork = searchWork;
    placement.packing = pack(intervals, limits);
    return placement;
  }

  /// Reuse lowers what is alive at once, but what lives longer is harder to
  /// pack.
  Placement choose(func::FuncOp program) const {
    program->removeAttr(kReuseAttr);
    Placement apart = getPlacement(Liveness(program));
    program->setAttr(kReuseAttr, UnitAttr::get(program.getContext()));
    Placement reused = getPlacement(Liveness(program));
    if (reused.transients.size() != apart.transients.size() &&
        reused.packing.bytes <= apart.packing.bytes)
      return reused;
    program->removeAttr(kReuseAttr);
    return apart;
  }

  /// Addresses of one program's transient tensors, from `base` on. Returns the
  /// end of the highest.
  int64_t place(func::FuncOp program, const Liveness &liveness,
                const Placement &placement, int64_t base) {
    ArrayRef<Storage> storages = liveness.getStorages();
    const auto &[transients, packing] = placement;
    StateTable states(getOperation());
    SmallVector<int64_t> addresses(storages.size(), 0);
    for (auto [index, storage] : llvm::enumerate(storages))
      if (storage.kind == StorageKind::State)
        addresses[index] = *states.lookup(storage.state).getAt();
    for (auto [index, offset] : llvm::zip_equal(transients, packing.offsets))
      addresses[index] = base + offset;
    for (unsigned index = 0; index < storages.size(); ++index)
      if (auto [whole, offset] = liveness.getPart(index);
          whole != Liveness::kNone)
        addresses[index] = addresses[whole] + offset;

    Builder builder(&getContext());
    for (BlockArgument argument : program.getArguments())
      if (!program.getArgAttr(argument.getArgNumber(), kStateAttr))
        program.setArgAttr(argument.getArgNumber(), kAtAttr,
                           builder.getDenseI64ArrayAttr(
                               addresses[liveness.getStorage(argument)]));
    for (Operation &op : program.getBody().front()) {
      SmallVector<int64_t> at;
      for (unsigned storage : liveness.getOwned(&op))
        at.push_back(addresses[storage]);
      if (!at.empty())
        op.setDiscardableAttr(kAtAttr, builder.getDenseI64ArrayAttr(at));
    }
    return base + packing.bytes;
  }
};

} // namespace
