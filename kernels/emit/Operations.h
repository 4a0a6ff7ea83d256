//===- Operations.h - Code of one operation ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_EMIT_OPERATIONS_H
#define FSDP_KERNELS_EMIT_OPERATIONS_H

#include "kernels/emit/Code.h"
#include "plan/Kernels.h"

namespace fsdp {

/// An operation on elements, of arguments of one width. Not of those that move
/// columns, read memory or go over rows or columns.
llvm::Value *compute(Code &code, const plan::KernelOpT &op,
                     llvm::ArrayRef<llvm::Value *> in);

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_OPERATIONS_H
