//===- Memories.h - Which memory a tensor lies in ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arguments lie where their states do, what is copied where it is copied to,
// and what an op makes where its operands lie. A program without states on the
// host and without copies has one memory.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ANALYSIS_MEMORIES_H
#define FSDP_PASSES_ANALYSIS_MEMORIES_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace fsdp {

class Memories {
public:
  /// `program` is one block without regions.
  explicit Memories(mlir::func::FuncOp program);

  bool isOnHost(mlir::Value value) const { return onHost.contains(value); }
  MemorySpace get(mlir::Value value) const {
    return isOnHost(value) ? MemorySpace::Host : MemorySpace::Device;
  }
  /// Whether the host computes `op`.
  bool isHostOp(mlir::Operation *op) const { return hostOps.contains(op); }
  /// Whether anything lies on the host.
  bool usesHost() const { return !onHost.empty(); }

private:
  llvm::DenseSet<mlir::Value> onHost;
  llvm::DenseSet<mlir::Operation *> hostOps;
};

/// Where what `state` is bound to lies; the device for none.
bool isOnHost(mlir::func::FuncOp program, unsigned argument);

/// Rule ME-1 of `fsdp.copy`, and that results lie where the states are that
/// they are new values of.
mlir::LogicalResult verifyMemories(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_MEMORIES_H
