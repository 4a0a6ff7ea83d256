//===- PlanParallel.h - Which parameters are split --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PARTITION_PLANPARALLEL_H
#define FSDP_PASSES_PARTITION_PLANPARALLEL_H

#include "ir/fsdp/Fsdp.h"

#include <string>

namespace fsdp {

/// Splits the parameters of `module` as `told` says: by its rules, the rest by
/// what the program computes if that is asked for. Programs are bound to states
/// of other types then. Emits an error if a rule matches no module, if its
/// style does not fit a parameter, or if the ranks do not divide one.
mlir::LogicalResult planParallel(mlir::ModuleOp module, ParallelAttr told);

/// What divides `size`, from 2 to `most`: "2, 3, 6"; empty if nothing does.
std::string listDivisors(int64_t size, int64_t most);

} // namespace fsdp

#endif // FSDP_PASSES_PARTITION_PLANPARALLEL_H
