//===- Placement.h - Where transient tensors lie to each other --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PLAN_PLACEMENT_H
#define FSDP_PASSES_PLAN_PLACEMENT_H

#include "passes/analysis/Liveness.h"
#include "passes/plan/Packing.h"

#include <array>

namespace fsdp {

/// The transient storages of one memory, by index, and where they lie.
struct Placement {
  llvm::SmallVector<unsigned> transients;
  Packing packing;
};
/// One for each MemorySpace.
using PlacedProgram = std::array<Placement, 2>;

/// The smaller one of what is found with dead operands reused and without:
/// reuse lowers what is alive at once, but what lives longer is harder to pack.
/// What is short is the device's memory. Leaves `kReuseAttr` on the program if
/// its placement is one with reuse.
PlacedProgram placeTransients(mlir::func::FuncOp program,
                              const PackingLimits &limits = {});

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_PLACEMENT_H
