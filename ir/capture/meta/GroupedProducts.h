//===- GroupedProducts.h - Products of groups without the host --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `_grouped_mm` multiplies groups of rows, of columns, or of what is summed
// over, by a matrix each. Only of bfloat16 on some GPUs it is one kernel; on
// others LibTorch reads on the host where groups end, which no CUDA graph can
// hold.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_META_GROUPEDPRODUCTS_H
#define FSDP_IR_CAPTURE_META_GROUPEDPRODUCTS_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

namespace fsdp::meta {

/// Elements in 16 bytes, at multiples of which LibTorch's kernels have rows
/// begin.
int64_t getAlignment(at::ScalarType type);

/// Whether there is such a kernel for matrices of this type.
bool isGrouped(at::ScalarType type);

/// What LibTorch's kernels take (GroupedMMUtils.h): rows or columns that begin
/// at multiples of 16 bytes.
bool isAligned(const at::Tensor &matrices);

/// Throws c10::Error unless these are operands of `_grouped_mm`.
void checkGroups(const at::Tensor &self, const at::Tensor &other,
                 const std::optional<at::Tensor> &offsets,
                 const std::optional<at::Tensor> &bias,
                 std::optional<at::ScalarType> dtype);

/// Whether LibTorch's kernel for the thread's target lets the host read where
/// groups end, and all products of all groups take less time than that.
bool isFasterWhole(const at::Tensor &self, const at::Tensor &other,
                   const at::Tensor &offsets);

/// One product of everything for each group, of which only its own is kept;
/// zeros behind the last group. `self` is [rows, in] or [groups, rows, in],
/// `other` [in, columns] or [groups, in, columns], at most one of them of 3
/// dims; `offsets` [groups] say where groups end.
at::Tensor multiplyWhole(const at::Tensor &self, const at::Tensor &other,
                         const at::Tensor &offsets);

/// Whether `op` is `_grouped_mm`, and the call whose arguments are at the end
/// of `stack` one that is replaced by `multiplyWhole`.
bool needsWholeProducts(const c10::OperatorHandle &op,
                        const torch::jit::Stack &stack);

/// Replaces these arguments by its result.
void callWholeProducts(const c10::OperatorHandle &op, torch::jit::Stack &stack);

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_GROUPEDPRODUCTS_H
