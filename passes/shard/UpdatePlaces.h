//===- UpdatePlaces.h - Where buckets are updated ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_UPDATE_PLACES_H
#define FSDP_PASSES_SHARD_UPDATE_PLACES_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// A parameter, as an argument of the program, and its gradient.
struct UpdatedParameter {
  StateOp state;
  mlir::BlockArgument param;
  mlir::Value grad;
};

/// Parameters that are updated together, by their numbers, in front of an op.
struct UpdatePlace {
  llvm::SmallVector<unsigned> members;
  mlir::Operation *before;
};

/// One place for each bucket, in the order of the program. A bucket is updated
/// when all of its gradients and those of the `lag` buckets behind it are
/// there, so that each transfer of its gradients has a bucket's time to travel,
/// and when nothing reads the old parameters any more.
llvm::SmallVector<UpdatePlace>
getUpdatePlaces(mlir::func::FuncOp program,
                llvm::ArrayRef<UpdatedParameter> params, size_t lag);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_UPDATE_PLACES_H
