//===- KernelWork.h - What kernels of our own compute -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_KERNELWORK_H
#define FSDP_SIMULATE_KERNELWORK_H

#include "plan/plan_generated.h"
#include "simulate/Work.h"

namespace fsdp {

/// Adds the operations of a program's run, and what a GPU does beside it for
/// sums over rows.
void addKernel(const plan::KernelProgramT &program, bool onGpu, Work &work);

} // namespace fsdp

#endif // FSDP_SIMULATE_KERNELWORK_H
