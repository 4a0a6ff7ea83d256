//===- Elements.h - Elements of memory as values ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In memory all but f32 are integers of their size, bf16 and f16 too: LLVM
// computes vectors of those types one by one on processors.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_EMIT_ELEMENTS_H
#define FSDP_KERNELS_EMIT_ELEMENTS_H

#include "kernels/emit/Code.h"
#include "plan/plan_generated.h"

namespace fsdp {

/// Of one element.
llvm::Type *memoryType(Code &code, plan::DType dtype);

/// What was loaded as f32, i64 or a truth.
llvm::Value *widen(Code &code, plan::DType dtype, llvm::Value *loaded);

/// What is to be stored of `value`; `isRounded`: it is one of bf16's or f16's
/// numbers, and no other NaN than theirs of KernelOps.def.
llvm::Value *narrow(Code &code, plan::DType dtype, llvm::Value *value,
                    bool isRounded);

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_ELEMENTS_H
