//===- CheckpointedModules.h - Which modules are recomputed -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_MEMORY_CHECKPOINTED_MODULES_H
#define FSDP_PASSES_MEMORY_CHECKPOINTED_MODULES_H

#include "ir/fsdp/Fsdp.h"

#include <string>

namespace fsdp {

/// What `#fsdp.recompute` of the module asks for, one behind the other.
llvm::SmallVector<RecomputeAttr> getRecomputeRules(mlir::ModuleOp module);

/// A module whose activations backward computes again.
struct CheckpointedModule {
  std::string path;
  size_t rule; ///< of getRecomputeRules; none if there is none
};

/// Those that `#fsdp.recompute` asks for, by the last rule that chooses them,
/// and those that the model itself checkpoints (`fsdp.checkpoints`), by the
/// last rule. None lies within another: the outermost count, as torch's
/// checkpoint of a module has the inner ones in it. In the order of the module
/// tree. Fails after it has said why.
mlir::FailureOr<llvm::SmallVector<CheckpointedModule>>
getCheckpointedModules(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_MEMORY_CHECKPOINTED_MODULES_H
