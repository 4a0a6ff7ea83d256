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

} // namespace fsdp

#endif // FSDP_KERNELS_INTERPRETER_H
