//===- Transfers.h - What a schedule may move -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SCHEDULE_TRANSFERS_H
#define FSDP_PASSES_SCHEDULE_TRANSFERS_H

#include "ir/fsdp/Fsdp.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <vector>

namespace fsdp {

/// A transfer that moves, with the slots that it moves to. Slot s is the place
/// in front of what was op s of the block.
struct Transfer {
  mlir::Operation *start;
  WaitOp wait;
  unsigned firstUse; ///< by what stays in its place
  /// Of reductions: what stands behind the wait, in order.
  llvm::SmallVector<mlir::Operation *> tails;
  unsigned startSlot = 0, waitSlot = 0;

  llvm::SmallVector<mlir::Operation *> getWaitAndTails() const;
};

/// The ops of a program in their order, and the transfers among them by what
/// they are for. Arrays, since asking MLIR for the order of two ops after a
/// move would cost linear time.
struct Transfers {
  std::vector<mlir::Operation *> order;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
  /// All that does not stay in its place.
  llvm::DenseSet<mlir::Operation *> moved;
  /// Uploads of unsharded parameters count as gathers.
  llvm::SmallVector<Transfer> gathers, reductions, replications;
  /// Between memories: of shards that are gathered, of gradients, of parameters
  /// that the host updates, of activations to the host and back, others.
  llvm::SmallVector<Transfer> uploads, downloads, updated, leaving, returning,
      copies;

  unsigned positionOf(mlir::Operation *op) const { return positions.at(op); }
};

/// Those of `body`, with their first uses and no slots. Fails after it has said
/// why if a start does not have one wait.
mlir::FailureOr<Transfers> collectTransfers(mlir::Block &body);

} // namespace fsdp

#endif // FSDP_PASSES_SCHEDULE_TRANSFERS_H
