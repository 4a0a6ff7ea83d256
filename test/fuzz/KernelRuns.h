//===- KernelRuns.h - What a plan's kernels do to memory --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_FUZZ_KERNELRUNS_H
#define FSDP_TEST_FUZZ_KERNELRUNS_H

#include "plan/plan_generated.h"

namespace fsdp::test {

/// Interprets the sound programs of kernels that are small, on operands that
/// have their extents and no byte more: AddressSanitizer sees what is outside.
void runKernels(const plan::PlanT &plan);

} // namespace fsdp::test

#endif // FSDP_TEST_FUZZ_KERNELRUNS_H
