//===- InPlace.h - What may be made where an operand lies -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_INPLACE_H
#define FSDP_PASSES_ANALYSIS_INPLACE_H

#include "mlir/IR/Operation.h"

namespace fsdp {

/// Whether `op` reads each element of an operand for the same elements of
/// results of its type alone, and before it writes these: a result may lie in
/// the place of the operand then, if nobody reads it afterwards. Other operands
/// that lie there, too, must be of that type as well.
bool canBeInPlace(mlir::OpOperand &operand);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_INPLACE_H
