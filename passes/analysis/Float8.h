//===- Float8.h - Casts to eight bits and their scales ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tensor in eight bits is one in f32 times a scale, cast: what the scale is
// of, the greatest absolute value, is a number of the whole tensor.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ANALYSIS_FLOAT8_H
#define FSDP_PASSES_ANALYSIS_FLOAT8_H

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// Names of the buckets of the greatest values of parameters that are cast, and
/// of gradients that are cast for their way.
inline constexpr llvm::StringLiteral kFloat8Bucket = "float8/maxima";
inline constexpr llvm::StringLiteral kWireBucket = "wire/maxima";

/// e4m3 or e5m2.
bool isFloat8(mlir::Type element);

/// Whether `op` multiplies a tensor by one number for casts to eight bits, its
/// only readers.
bool isFloat8Scaling(mlir::Operation *op);

/// Whether `op` is the greatest absolute value of one whole tensor, in f32.
bool isGreatest(mlir::Operation *op);

/// The all-reduce that the scale of `scaling` is computed of, through numbers;
/// null if it is of none.
AllReduceOp getScaleMaximum(mlir::Operation *scaling);

/// Whether `reduce` is the maximum over ranks of the greatest value of a
/// gradient, of which the scale for its way is computed.
bool isWireMaximum(AllReduceOp reduce);

/// The scaling of what is cast to `operand`, eight bits, for the way of a
/// reduction whose sums are wider; null if it is none.
mlir::Operation *getWireScaling(mlir::Value operand);

/// Whether `op` divides the sums of such a reduction by the scale with which
/// its operand was multiplied: all that is between them is how gradients
/// travel.
bool isWireUnscaling(mlir::Operation *op);

/// The op of whose result `reduce` is the maximum over ranks, if that is the
/// greatest absolute value of what one rank has of a parameter, perhaps copied
/// from another memory; else null.
mlir::Operation *getGreatestOfShard(AllReduceOp reduce);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_FLOAT8_H
