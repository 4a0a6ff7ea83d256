//===- KernelCode.h - Code of kernels in an artifact ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_COMPILE_KERNELCODE_H
#define FSDP_TOOLS_FSDPOPT_COMPILE_KERNELCODE_H

#include "plan/plan_generated.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace fsdp {

/// Adds what libfsdp-kernels.so makes of all kernels' programs for each target
/// (kernels/GivenCode.h). Throws fsdp::Error (KernelsUnusable) if there is no
/// such library, or if a program has no code there.
void addKernelCode(plan::PlanT &plan, llvm::ArrayRef<std::string> targets);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_COMPILE_KERNELCODE_H
