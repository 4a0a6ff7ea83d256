//===- CheckpointedModules.h - Which modules are recomputed -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_MEMORY_CHECKPOINTED_MODULES_H
#define FSDP_PASSES_MEMORY_CHECKPOINTED_MODULES_H

#include "ir/fsdp/Fsdp.h"

#include <string>

namespace fsdp {

/// Paths of the modules whose activations backward computes again: those that
/// `#fsdp.recompute` asks for, and those that the model itself checkpoints
/// (`fsdp.checkpoints`). None lies within another: the outermost count, as
/// torch's checkpoint of a module has the inner ones in it. In the order of the
/// module tree. Fails after it has said why.
mlir::FailureOr<llvm::SmallVector<std::string>>
getCheckpointedModules(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_MEMORY_CHECKPOINTED_MODULES_H
