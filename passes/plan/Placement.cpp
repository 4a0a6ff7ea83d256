//===- Placement.cpp - Where transient tensors lie to each other ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/Placement.h"

using namespace mlir;
using namespace fsdp;

static Placement place(const Liveness &liveness, MemorySpace memory,
                       const PackingLimits &limits) {
  Placement placement;
  SmallVector<Interval> intervals;
  for (auto [index, storage] : llvm::enumerate(liveness.getStorages()))
    if (storage.kind != StorageKind::State && storage.memory == memory &&
        !liveness.isMerged(index)) {
      placement.transients.push_back(index);
      intervals.push_back({storage.bytes, storage.first, storage.last});
    }
  placement.packing = pack(intervals, limits);
  return placement;
}

static PlacedProgram placeAll(func::FuncOp program,
                              const PackingLimits &limits) {
  Liveness liveness(program);
  return {place(liveness, MemorySpace::Device, limits),
          place(liveness, MemorySpace::Host, limits)};
}

PlacedProgram fsdp::placeTransients(func::FuncOp program,
                                    const PackingLimits &limits) {
  program->removeAttr(kReuseAttr);
  PlacedProgram apart = placeAll(program, limits);
  program->setAttr(kReuseAttr, UnitAttr::get(program.getContext()));
  PlacedProgram reused = placeAll(program, limits);
  if (reused[0].transients.size() != apart[0].transients.size() &&
      reused[0].packing.bytes <= apart[0].packing.bytes)
    return reused;
  program->removeAttr(kReuseAttr);
  return apart;
}
