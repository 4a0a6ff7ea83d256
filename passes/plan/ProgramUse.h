//===- ProgramUse.h - What a planned program needs, and where ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For people and reports: how high a program's tensors reach on the device, how
// high they would have to, and the op at which most is alive there.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PLAN_PROGRAMUSE_H
#define FSDP_PASSES_PLAN_PROGRAMUSE_H

#include "passes/analysis/LiveBytes.h"
#include "passes/analysis/Phases.h"
#include "passes/analysis/States.h"

namespace fsdp {

/// The address of each of the program's storages, by its index in `liveness`.
/// -1 for storages without one of their own: those that lie in a state's place.
/// `program` passed fsdp-verify-planned.
llvm::SmallVector<int64_t> getAddresses(mlir::func::FuncOp program,
                                        const Liveness &liveness,
                                        const StateTable &states);

/// The moment of a program's or phase's highest use.
struct PeakPoint {
  llvm::StringRef phase;
  int64_t time;        ///< number of the op
  mlir::Operation *op; ///< the first one, if inputs alone need most
  TransientUse use;    ///< in bytes, without alignment
};

struct ProgramUse {
  mlir::func::FuncOp program;
  llvm::SmallVector<Phase, 3> phases;
  llvm::SmallVector<PeakPoint, 3> phasePeaks;
  PeakPoint peak;
  int64_t end = 0;        ///< of the highest tensor, in the arena
  int64_t lowerBound = 0; ///< no packing ends below; states included

  /// How far the program is above the bound: 1 is perfect.
  double getRatio() const {
    return lowerBound
               ? static_cast<double>(end) / static_cast<double>(lowerBound)
               : 1;
  }
};

/// `module` passed fsdp-verify-planned. One for each program, in their order.
llvm::SmallVector<ProgramUse, 0> getProgramUses(mlir::ModuleOp module);

/// That which is highest above the module's states. `uses` is not empty.
const ProgramUse &getLargest(llvm::ArrayRef<ProgramUse> uses);

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_PROGRAMUSE_H
