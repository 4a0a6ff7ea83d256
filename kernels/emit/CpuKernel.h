//===- CpuKernel.h - A program's function for a processor -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_EMIT_CPUKERNEL_H
#define FSDP_KERNELS_EMIT_CPUKERNEL_H

#include "kernels/Nest.h"
#include "kernels/emit/Target.h"

namespace llvm {
class Module;
}

namespace fsdp {

/// Adds a KernelFunction (kernels/Kernel.h) named "kernel". Throws EmitFailure
/// if it becomes too long.
void emitCpuKernel(llvm::Module &module, const EmitTarget &target,
                   const Nest &nest);

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_CPUKERNEL_H
