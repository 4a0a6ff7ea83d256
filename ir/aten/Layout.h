//===- Layout.h - Where the elements of a tensor lie ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_ATEN_LAYOUT_H
#define FSDP_IR_ATEN_LAYOUT_H

#include "mlir/IR/BuiltinTypes.h"

namespace fsdp::aten {

/// Strides (in elements) of a contiguous tensor, as LibTorch computes them.
llvm::SmallVector<int64_t> getContiguousStrides(llvm::ArrayRef<int64_t> shape);

/// Contiguity as LibTorch defines it: strides of dims of size 1 do not matter,
/// nor any stride of a tensor without elements.
bool isContiguous(llvm::ArrayRef<int64_t> shape,
                  llvm::ArrayRef<int64_t> strides);

/// The type of a tensor of that layout; equal layouts give equal types.
/// Contiguous tensors have no encoding.
mlir::RankedTensorType getTensorType(llvm::ArrayRef<int64_t> shape,
                                     llvm::ArrayRef<int64_t> strides,
                                     mlir::Type elementType);

/// Strides in elements, also of contiguous types.
llvm::SmallVector<int64_t> getStrides(mlir::RankedTensorType type);

bool isContiguous(mlir::RankedTensorType type);

/// Bytes of an element as LibTorch stores it (bool: 1, complex: both parts).
int64_t getElementBytes(mlir::Type elementType);

/// Bytes from the first to the end of the last element; 0 without elements.
int64_t getStorageBytes(mlir::RankedTensorType type);

} // namespace fsdp::aten

#endif // FSDP_IR_ATEN_LAYOUT_H
