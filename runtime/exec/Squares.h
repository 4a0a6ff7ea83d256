//===- Squares.h - Exact sums of a tensor's squares -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_SQUARES_H
#define FSDP_RUNTIME_EXEC_SQUARES_H

#include "support/ExactSum.h"

#include <ATen/core/Tensor.h>

namespace fsdp {

/// Adds the squares of all elements of `tensor`, on the CPU and of f32, bf16 or
/// f16, to `digits`, by all of LibTorch's threads. Digits are carried.
void addSquares(const at::Tensor &tensor, SumDigits &digits);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_SQUARES_H
