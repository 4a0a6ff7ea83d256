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

/// Whether `told` gives each rank equal parts of the rows of a matrix whose
/// product is scores of as many classes, if nothing but these is made of it.
bool splitsClasses(StateOp state, ParallelAttr told);

/// On ops between `fsdp-spell-losses` and `fsdp-partition`: what makes a number
/// a token of all classes, which is exchanged, and what says which class is a
/// token's own, of which ranks make those parts that they have scores of.
inline constexpr llvm::StringLiteral kClassesAttr = "fsdp.classes";

/// On `fsdp.dequantize` of a parameter in blocks of codes: how its numbers are
/// split, a `#fsdp.split`. Every rank has all codes.
inline constexpr llvm::StringLiteral kNumbersAttr = "fsdp.numbers";

/// The model's tensor, of which dims are split; also of what is held in blocks
/// of codes.
inline mlir::RankedTensorType getNumbersType(StateOp state) {
  return state.getQuantized() ? state.getModelType() : state.getGlobalType();
}

/// What divides `size`, from 2 to `most`: "2, 3, 6"; empty if nothing does.
std::string listDivisors(int64_t size, int64_t most);

} // namespace fsdp

#endif // FSDP_PASSES_PARTITION_PLANPARALLEL_H
