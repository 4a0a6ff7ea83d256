//===- MemoryUse.h - Bytes of a rank, by kind -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PLAN_MEMORYUSE_H
#define FSDP_PASSES_PLAN_MEMORYUSE_H

#include "passes/analysis/LiveBytes.h"

#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// One memory. All in bytes a rank.
struct SpaceUse {
  int64_t peak = 0;   ///< size of the arena
  int64_t states = 0; ///< with alignment
  int64_t params = 0, optimizer = 0, buffers = 0;
  TransientUse transient; ///< at the moment of the highest use
};

/// Where checks of both memories at once see the host's: behind any address of
/// the device's.
inline constexpr int64_t kHostBegin = int64_t(1) << 50;

/// `at` in `memory`, as they see it.
inline int64_t getCheckedAddress(int64_t at, MemorySpace memory) {
  return memory == MemorySpace::Host && at >= 0 ? kHostBegin + at : at;
}
/// The other way round, for errors.
inline int64_t getPlainAddress(int64_t at) {
  return at >= kHostBegin ? at - kHostBegin : at;
}

/// What stands in `fsdp.memory`: that of the device.
struct MemoryUse : SpaceUse {
  /// Beside it, in the entry `host`; absent if nothing lies there.
  std::optional<SpaceUse> host;
  /// Of the kernels' temporaries; none where the device's are not known.
  std::optional<int64_t> scratchBound;
  /// Operators that may take more than was counted of them (ScratchBound.h).
  std::vector<std::string> scratchUnknown;

  int64_t getPeak(MemorySpace memory) const {
    return memory == MemorySpace::Device ? peak : host ? host->peak : 0;
  }

  mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context) const;
  /// Fails (without a diagnostic) if `module` was not planned.
  static mlir::FailureOr<MemoryUse> fromAttribute(mlir::ModuleOp module);
};

/// The states' part in one memory; `peak` and `states` are left to the planner.
SpaceUse getStatesUse(mlir::ModuleOp module,
                      MemorySpace memory = MemorySpace::Device);

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_MEMORYUSE_H
