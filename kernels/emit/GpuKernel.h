//===- GpuKernel.h - A program's functions for a GPU ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_EMIT_GPUKERNEL_H
#define FSDP_KERNELS_EMIT_GPUKERNEL_H

#include "kernels/Nest.h"
#include "kernels/Ptx.h"
#include "kernels/emit/Target.h"

#include <vector>

namespace llvm {
class Module;
}

namespace fsdp {

/// Adds the functions of Ptx.h, and says how they are launched. Throws
/// EmitFailure if they become too long.
std::vector<PtxLaunch>
emitGpuKernel(llvm::Module &module, const EmitTarget &target, const Nest &nest);

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_GPUKERNEL_H
