//===- Interpreter.h - Runs a kernel's program as it is read ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The definition of what programs compute: slow, and the same bits as all code
// that is made of them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_INTERPRETER_H
#define FSDP_KERNELS_INTERPRETER_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <span>

namespace fsdp {

/// Computes rows `begin` to `end` - 1, or columns if the program is flat, as
/// code does (kernels/Kernel.h). `operands` are the addresses of first
/// elements; one that takes a sum over rows is a row of f32 to which these rows
/// are added.
void interpret(const plan::KernelProgramT &program,
               std::span<void *const> operands, int64_t begin, int64_t end);

/// Bytes that a call takes beside the operands: a sound program's rows may have
/// far more columns than its operands have elements.
uint64_t interpretedBytes(const plan::KernelProgramT &program);

} // namespace fsdp

#endif // FSDP_KERNELS_INTERPRETER_H
