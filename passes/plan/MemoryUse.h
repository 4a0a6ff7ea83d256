//===- MemoryUse.h - Bytes of a rank, by kind -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PLAN_MEMORYUSE_H
#define FSDP_PASSES_PLAN_MEMORYUSE_H

#include "passes/analysis/Liveness.h"

#include <limits>

namespace fsdp {

/// Bytes of tensors that live for a part of a program, at one moment.
struct TransientUse {
  int64_t inputs = 0, activations = 0, gathered = 0, grads = 0;

  int64_t total() const { return inputs + activations + gathered + grads; }
};

/// What stands in `fsdp.memory`. All in bytes a rank.
struct MemoryUse {
  int64_t peak = 0;   ///< size of the arena
  int64_t states = 0; ///< with alignment
  int64_t params = 0, optimizer = 0, buffers = 0;
  TransientUse transient; ///< at the moment of the highest use
  int64_t scratchBound = 0;

  mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context) const;
  /// Fails (without a diagnostic) if `module` was not planned.
  static mlir::FailureOr<MemoryUse> fromAttribute(mlir::ModuleOp module);
};

/// The states' part; `peak` and `states` are left to the planner.
MemoryUse getStatesUse(mlir::ModuleOp module);

/// The moment at which a program's transient tensors need most, of those in
/// front of op number `end` and from number `begin` on.
TransientUse getPeakUse(const Liveness &liveness, int64_t begin = -1,
                        int64_t end = std::numeric_limits<int64_t>::max());

/// That moment of each phase of a program.
struct PhaseUse {
  llvm::StringLiteral name; ///< forward, backward, optimizer
  TransientUse use;
};
llvm::SmallVector<PhaseUse, 3> getPhaseUses(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_MEMORYUSE_H
