//===- KernelOnGpu.h - Programs of kernels on a device's stream -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_INSTRUCTIONS_KERNELONGPU_H
#define FSDP_RUNTIME_EXEC_INSTRUCTIONS_KERNELONGPU_H

#include "runtime/exec/Instruction.h"
#include "runtime/kernels/GpuKernels.h"

#include <memory>
#include <vector>

namespace fsdp {

/// Launches the program of `op` over the addresses of its operands. Null if
/// there is nothing to compute. Throws fsdp::Error (KernelsUnusable).
std::unique_ptr<Instruction> makeKernelOnGpu(Preparation &preparation,
                                             GpuKernels &kernels,
                                             const plan::KernelT &op,
                                             std::vector<void *> operands);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_INSTRUCTIONS_KERNELONGPU_H
