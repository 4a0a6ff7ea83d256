//===- BlockRemarks.h - What blocks keep for backward -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_MEMORY_BLOCKREMARKS_H
#define FSDP_PASSES_MEMORY_BLOCKREMARKS_H

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/Decisions.h"
#include "passes/memory/CheckpointedModules.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace fsdp {

/// Says of each block what it keeps for backward, and what it kept before some
/// were computed again: made in front of that, `emit` is called behind it.
/// Blocks are those of `recomputed` and the buckets that modules have.
class BlockRemarks {
public:
  BlockRemarks(mlir::ModuleOp module, mlir::func::FuncOp func,
               llvm::ArrayRef<CheckpointedModule> recomputed);

  void emit() const;

private:
  void emit(const KeptActivations &block, mlir::Location location,
            int64_t left) const;

  mlir::func::FuncOp func;
  /// Of each module that is computed again; null: the model asks for it.
  llvm::StringMap<RecomputeAttr> recomputed;
  bool isTold = false;
  std::vector<std::string> modules;
  std::vector<KeptActivations> before;
  llvm::SmallVector<mlir::Location> locations;
};

} // namespace fsdp

#endif // FSDP_PASSES_MEMORY_BLOCKREMARKS_H
