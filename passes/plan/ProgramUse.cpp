//===- ProgramUse.cpp - What a planned program needs, and where -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/ProgramUse.h"

#include "passes/analysis/Programs.h"
#include "passes/plan/MemoryUse.h"
#include "passes/plan/Packing.h"

using namespace mlir;
using namespace fsdp;

SmallVector<int64_t> fsdp::getAddresses(func::FuncOp program,
                                        const Liveness &liveness,
                                        const StateTable &states) {
  SmallVector<int64_t> addresses(liveness.getStorages().size(), -1);
  for (BlockArgument argument : program.getArguments()) {
    unsigned number = argument.getArgNumber();
    int64_t &address = addresses[liveness.getStorage(argument)];
    if (StateOp state = states.lookup(program, number))
      address = *state.getAt();
    else
      address = program.getArgAttrOfType<DenseI64ArrayAttr>(number, kAtAttr)[0];
  }
  for (Operation &op : program.getBody().front())
    if (auto at =
            dyn_cast_or_null<DenseI64ArrayAttr>(op.getDiscardableAttr(kAtAttr)))
      for (auto [storage, address] :
           llvm::zip_equal(liveness.getOwned(&op), at.asArrayRef()))
        addresses[storage] = address;
  return addresses;
}

static PeakPoint makePoint(const Phase &phase, const LivePoint &peak,
                           ArrayRef<Operation *> ops) {
  int64_t time = std::max<int64_t>(peak.time, 0);
  return {phase.name, time, ops[time], peak.use};
}

static ProgramUse getProgramUse(func::FuncOp program, const StateTable &states,
                                int64_t statesEnd) {
  Liveness liveness(program);
  SmallVector<Operation *> ops;
  for (Operation &op : program.getBody().front())
    ops.push_back(&op);
  ProgramUse use;
  use.program = program;
  use.phases = getPhases(program);
  SmallVector<LivePoint> curve = getLiveCurve(liveness);
  for (const Phase &phase : use.phases)
    use.phasePeaks.push_back(
        makePoint(phase, getPeak(curve, phase.begin, phase.end), ops));
  // Of equal ones the first, as in the whole curve.
  use.peak = *llvm::max_element(use.phasePeaks,
                                [](const PeakPoint &a, const PeakPoint &b) {
                                  return a.use.total() < b.use.total();
                                });
  use.lowerBound =
      statesEnd + getPeak(getLiveCurve(liveness, alignUp)).use.total();
  use.end = statesEnd;
  SmallVector<int64_t> addresses = getAddresses(program, liveness, states);
  for (auto [index, storage] : llvm::enumerate(liveness.getStorages()))
    if (storage.kind != StorageKind::State &&
        storage.memory == MemorySpace::Device && !liveness.isMerged(index))
      use.end = std::max(use.end, addresses[index] + alignUp(storage.bytes));
  return use;
}

SmallVector<ProgramUse, 0> fsdp::getProgramUses(ModuleOp module) {
  StateTable states(module);
  int64_t statesEnd = MemoryUse::fromAttribute(module)->states;
  SmallVector<ProgramUse, 0> uses;
  for (func::FuncOp program : getPrograms(module))
    uses.push_back(getProgramUse(program, states, statesEnd));
  return uses;
}

const ProgramUse &fsdp::getLargest(ArrayRef<ProgramUse> uses) {
  return *llvm::max_element(uses, [](const ProgramUse &a, const ProgramUse &b) {
    return a.end < b.end;
  });
}
