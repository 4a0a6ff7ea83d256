//===- MakeKernel.h - A group becomes an op ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_MAKEKERNEL_H
#define FSDP_PASSES_KERNELS_MAKEKERNEL_H

#include "ir/fsdp/Fsdp.h"
#include "passes/kernels/Groups.h"

namespace fsdp {

/// Puts `fsdp.kernel` in the place of the group's operators, which are erased.
KernelOp makeKernel(const KernelGroup &group);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_MAKEKERNEL_H
