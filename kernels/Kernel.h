//===- Kernel.h - A kernel that can be called -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_KERNEL_H
#define FSDP_KERNELS_KERNEL_H

#include <cstdint>

namespace fsdp {

/// Computes rows `begin` to `end` - 1 of a program, or columns if it is flat
/// (plan/Kernels.h), each as if it were alone: any cut gives the same bits.
/// `operands` are the addresses of first elements, aligned to their types; one
/// that takes a sum over rows is a row of f32 to which these rows are added, in
/// order. Touches nothing but these; may run in many threads at once.
///
/// In a row all that has columns is stored behind the last read of these
/// columns, and what has one column last of all: so what is written may lie
/// over what is read where mayOverwrite() says so.
using KernelFunction = void (*)(void *const *operands, int64_t begin,
                                int64_t end);

} // namespace fsdp

#endif // FSDP_KERNELS_KERNEL_H
