//===- Matchers.h - Operators that passes look for --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_ATEN_MATCHERS_H
#define FSDP_IR_ATEN_MATCHERS_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Types.h"

#include <optional>

namespace fsdp::aten {

/// Whether `op`, which may be null or of another dialect, is `aten._to_copy`:
/// a tensor in another element type, or with other strides.
bool isCast(mlir::Operation *op);

/// Whether it is a cast to another element type and nothing else.
bool isPlainCast(mlir::Operation *op);

/// Whether it is `aten.clone`: a copy, perhaps with other strides.
bool isClone(mlir::Operation *op);

/// Whether it is `aten.addmm`, which adds to its first operand in place where
/// its result lies there.
bool isAddedProduct(mlir::Operation *op);

/// Whether an index of this type selects where it is true: one of bools, or of
/// bytes.
bool isMask(mlir::Type type);

/// The number that `value` is; nothing for others, and for null.
std::optional<double> getNumber(mlir::Attribute value);
/// The one that is the static argument `name` of `op`, or its default.
std::optional<double> getStaticNumber(mlir::Operation *op,
                                      llvm::StringRef name);

/// Whether it makes norms of tensors.
bool isNorm(mlir::Operation *op);

/// Elements `start` to `end` (excluded) of one dim, as `aten.slice.Tensor`
/// says.
struct Slice {
  int64_t dim, start, step;
  std::optional<int64_t> end;
};

/// Nothing for other ops.
std::optional<Slice> matchSlice(mlir::Operation *op);

/// Which dim of its operand each dim of the result of `aten.permute` is, from
/// 0; nothing for other ops.
std::optional<llvm::SmallVector<int64_t>> matchPermute(mlir::Operation *op);

} // namespace fsdp::aten

#endif // FSDP_IR_ATEN_MATCHERS_H
