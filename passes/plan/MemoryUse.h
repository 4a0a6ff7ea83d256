//===- MemoryUse.h - Bytes of a rank, by kind -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PLAN_MEMORYUSE_H
#define FSDP_PASSES_PLAN_MEMORYUSE_H

#include "passes/analysis/LiveBytes.h"

#include <optional>

namespace fsdp {

/// What stands in `fsdp.memory`. All in bytes a rank.
struct MemoryUse {
  int64_t peak = 0;   ///< size of the arena
  int64_t states = 0; ///< with alignment
  int64_t params = 0, optimizer = 0, buffers = 0;
  TransientUse transient; ///< at the moment of the highest use
  /// Of the kernels' temporaries; none where the device's are not known.
  std::optional<int64_t> scratchBound;

  mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context) const;
  /// Fails (without a diagnostic) if `module` was not planned.
  static mlir::FailureOr<MemoryUse> fromAttribute(mlir::ModuleOp module);
};

/// The states' part; `peak` and `states` are left to the planner.
MemoryUse getStatesUse(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_MEMORYUSE_H
