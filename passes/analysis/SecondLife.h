//===- SecondLife.h - What backward reads of a parameter --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_SECONDLIFE_H
#define FSDP_PASSES_ANALYSIS_SECONDLIFE_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace fsdp {

/// Makes `value`, which forward and backward read, anew for backward by
/// `again`, which is told the last op of forward that reads it. Views and
/// copies of it that forward made and backward reads are made again, too.
/// Nothing happens if only one of the two reads it. `positions` has the ops of
/// the block, `border` is the position of forward's last one.
///
/// `isComputed` says that forward makes `value`, an activation: that counts as
/// a read there, and copies of it are activations of their own, which are not
/// made again.
void giveSecondLife(
    mlir::Value value,
    const llvm::DenseMap<mlir::Operation *, unsigned> &positions,
    unsigned border,
    llvm::function_ref<mlir::Value(mlir::OpBuilder &builder,
                                   mlir::Operation *lastRead)>
        again,
    bool isComputed = false);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_SECONDLIFE_H
