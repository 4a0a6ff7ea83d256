//===- Compile.h - From programs to code ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_EMIT_COMPILE_H
#define FSDP_KERNELS_EMIT_COMPILE_H

#include "plan/plan_generated.h"

#include <string>
#include <string_view>

namespace fsdp {

/// The image (Image.h) of a sound program's KernelFunction; of a target behind
/// whose name is "/asm" its assembly, for people. Throws EmitFailure. Any
/// thread may call it.
std::string compileKernel(const plan::KernelProgramT &program,
                          std::string_view target);

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_COMPILE_H
