//===- Placement.cpp - Where transient tensors lie to each other ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/Placement.h"

#include "ir/aten/Matchers.h"

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
  MLIRContext *context = program.getContext();
  program->removeAttr(kReuseAttr);
  PlacedProgram chosen = placeAll(program, limits);
  Attribute mark;
  auto offer = [&](Attribute reuse) {
    program->setAttr(kReuseAttr, reuse);
    PlacedProgram placed = placeAll(program, limits);
    if (placed[0].transients.size() == chosen[0].transients.size() ||
        placed[0].packing.bytes > chosen[0].packing.bytes)
      return;
    chosen = std::move(placed);
    mark = reuse;
  };
  // In place these save a copy each.
  if (llvm::any_of(program.getBody().front(),
                   [](Operation &op) { return aten::isAddedProduct(&op); }))
    offer(StringAttr::get(context, kReuseSums));
  offer(UnitAttr::get(context));
  if (mark)
    program->setAttr(kReuseAttr, mark);
  else
    program->removeAttr(kReuseAttr);
  return chosen;
}
