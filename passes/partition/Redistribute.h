//===- Redistribute.h - From one placement to another -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PARTITION_REDISTRIBUTE_H
#define FSDP_PASSES_PARTITION_REDISTRIBUTE_H

#include "passes/partition/Axis.h"

namespace fsdp {

/// What a rank has, and how that relates to the tensor.
struct PlacedValue {
  mlir::Value value;
  Place place;
};

/// Bytes that a rank sends to turn a tensor of type `whole` that is placed as
/// `from` into one that is placed as `to`; none if that is never done.
std::optional<int64_t> getTransferBytes(mlir::RankedTensorType whole,
                                        Place from, Place to, int64_t ranks);

/// Does it, at the builder's place. `whole` is the tensor's type.
PlacedValue redistribute(mlir::OpBuilder &builder, mlir::Location loc,
                         PlacedValue value, Place to,
                         mlir::RankedTensorType whole, const Axis &axis);

/// A row-major copy of it.
mlir::Value copyInOrder(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value value);

} // namespace fsdp

#endif // FSDP_PASSES_PARTITION_REDISTRIBUTE_H
