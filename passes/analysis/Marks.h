//===- Marks.h - What an op that is computed in parts was -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `fsdp.whole` on such an op has what the part has otherwise: the types of its
// results ("types", an array) and its static arguments ("statics", a
// dictionary). `fsdp.placed` has an array for each result, with one
// `#fsdp.placed` for each group that computes it in parts. Where several do,
// one after the other, `fsdp.together` has what `fsdp.whole` has, as it was in
// front of the last.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ANALYSIS_MARKS_H
#define FSDP_PASSES_ANALYSIS_MARKS_H

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// The type of `result` as it was captured.
mlir::RankedTensorType getWholeResultType(mlir::OpResult result);

/// The static arguments of an operator as they were captured.
mlir::DictionaryAttr getWholeProperty(mlir::Operation *op);

/// The type of `result`, and the static arguments of `op`, as the ranks of the
/// last axis compute them together. Those of ops that are no operators are
/// their properties.
mlir::RankedTensorType getTogetherType(mlir::OpResult result);
mlir::DictionaryAttr getTogetherProperty(mlir::Operation *op);

/// What a rank of `group` has of a value that an operator computed.
PlacedAttr getPlaced(mlir::OpResult result, GroupAttr group);

/// Marks `part` as the part of `whole` that ranks of `group` compute, placed as
/// `placed` says of each result. What `whole` is marked with itself is kept.
void markPart(mlir::Operation *part, mlir::Operation *whole,
              llvm::ArrayRef<PlacedAttr> placed);

/// Removes `fsdp.together`: another axis begins.
void forgetTogether(mlir::Operation *op);

/// Removes the marks of an op.
void removeMarks(mlir::Operation *op);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_MARKS_H
