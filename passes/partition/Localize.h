//===- Localize.h - An operator on parts ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PARTITION_LOCALIZE_H
#define FSDP_PASSES_PARTITION_LOCALIZE_H

#include "passes/partition/Cuts.h"

namespace fsdp {

/// What a rank has of a tensor of type `whole`: dense, its dims in the same
/// order in memory.
mlir::RankedTensorType getPartType(mlir::RankedTensorType whole, Place place,
                                   int64_t ranks);

/// The static arguments of `op` for the part that `cut` says.
mlir::DictionaryAttr localizeStatics(const WholeOp &op, const Cut &cut,
                                     int64_t ranks);

/// The types of results of `op`, computed from operands of these types as `cut`
/// says; fails if a view of that operand is impossible, which a contiguous one
/// allows.
mlir::FailureOr<llvm::SmallVector<mlir::Type>>
localizeResults(const WholeOp &op, const Cut &cut, int64_t ranks,
                llvm::ArrayRef<mlir::RankedTensorType> operands);

} // namespace fsdp

#endif // FSDP_PASSES_PARTITION_LOCALIZE_H
