//===- PlanMemory.cpp - Give every tensor its address ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Liveness.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/ScratchBound.h"
#include "passes/analysis/States.h"
#include "passes/plan/MemoryUse.h"
#include "passes/plan/Placement.h"

#include <array>

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
    MemoryUse use;
    use.host.emplace();
    SmallVector<SpaceUse *> spaces{&use, &*use.host}; // by MemorySpace
    bool usesHost = false;
    for (auto memory : {MemorySpace::Device, MemorySpace::Host}) {
      SpaceUse &space = *spaces[unsigned(memory)];
      space = getStatesUse(module, memory);
      space.peak = space.states = placeStates(module, memory);
    }
    SmallVector<int64_t, 2> highest(2, -1);
    PackingLimits limits;
    limits.greedyBuffers = sizeLimit;
    limits.searchWork = searchWork;
    for (func::FuncOp program : getPrograms(module)) {
      PlacedProgram plan = placeTransients(program, limits);
      Liveness liveness(program);
      place(program, liveness, plan, {use.states, use.host->states});
      usesHost |= liveness.getMemories().usesHost();
      for (auto memory : {MemorySpace::Device, MemorySpace::Host}) {
        SpaceUse &space = *spaces[unsigned(memory)];
        space.peak = std::max(
            space.peak, space.states + plan[unsigned(memory)].packing.bytes);
        TransientUse transient =
            getPeak(getLiveCurve(liveness, nullptr, memory)).use;
        if (transient.total() > highest[unsigned(memory)]) {
          highest[unsigned(memory)] = transient.total();
          space.transient = transient;
        }
      }
    }
    if (std::optional<ScratchBound> scratch = getScratchBound(module)) {
      use.scratchBound = scratch->bytes;
      use.scratchUnknown = std::move(scratch->unknown);
    }
    for (auto state : module.getOps<StateOp>()) {
      int64_t bytes = aten::getStorageBytes(state.getLocalType());
      SpaceUse &space = *spaces[state.isOnHost()];
      usesHost |= state.isOnHost();
      if (state.getRole() == Role::Gradient)
        space.transient.grads += bytes;
      else if (state.getRole() == Role::Gathered)
        space.transient.gathered += bytes;
    }
    if (!usesHost)
      use.host.reset();
    module->setAttr(kMemoryAttr, use.toAttribute(&getContext()));
  }

  /// Addresses of the states in one memory. Returns where its transient tensors
  /// begin.
  static int64_t placeStates(ModuleOp module, MemorySpace memory) {
    auto bytesOf = [](StateOp state) {
      return aten::getStorageBytes(state.getLocalType());
    };
    // Those that need most alignment first, so that there are no gaps between.
    SmallVector<StateOp> states(module.getOps<StateOp>());
    // Parts of flat states lie in these.
    llvm::erase_if(states, [&](StateOp state) {
      return state.getPart() ||
             state.isOnHost() != (memory == MemorySpace::Host);
    });
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

  /// Addresses of one program's transient tensors, in each memory from `bases`
  /// on.
  void place(func::FuncOp program, const Liveness &liveness,
             const PlacedProgram &plan, std::array<int64_t, 2> bases) {
    ArrayRef<Storage> storages = liveness.getStorages();
    StateTable states(getOperation());
    SmallVector<int64_t> addresses(storages.size(), 0);
    for (auto [index, storage] : llvm::enumerate(storages))
      if (storage.kind == StorageKind::State)
        addresses[index] = *states.lookup(storage.state).getAt();
    for (auto [placement, base] : llvm::zip_equal(plan, bases))
      for (auto [index, offset] :
           llvm::zip_equal(placement.transients, placement.packing.offsets))
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
  }
};

} // namespace
