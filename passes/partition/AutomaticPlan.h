//===- AutomaticPlan.h - Pairs of products to be split ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PARTITION_AUTOMATICPLAN_H
#define FSDP_PASSES_PARTITION_AUTOMATICPLAN_H

#include "passes/analysis/States.h"
#include "passes/partition/Cuts.h"

#include "llvm/ADT/MapVector.h"

namespace fsdp {

/// Which dim of which parameter is split, in how many blocks.
using Splits = llvm::MapVector<mlir::Operation *, Place>;

/// Adds to `splits` the parameters of `func`, a captured program that trains,
/// that `ranks` ranks may split so that parts are exchanged only where they are
/// added up. `isFixed`: of which somebody else decides.
void planAutomatically(mlir::func::FuncOp func, const StateTable &states,
                       int64_t ranks, llvm::function_ref<bool(StateOp)> isFixed,
                       Splits &splits);

} // namespace fsdp

#endif // FSDP_PASSES_PARTITION_AUTOMATICPLAN_H
