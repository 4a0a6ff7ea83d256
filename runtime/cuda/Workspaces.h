//===- Workspaces.h - What LibTorch's GPU libraries hold --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_WORKSPACES_H
#define FSDP_RUNTIME_CUDA_WORKSPACES_H

#include "plan/plan_generated.h"
#include "runtime/device/Streams.h"

#include <cstdint>

namespace fsdp {

/// Takes the memory that cuBLAS and cuBLASLt work in on the thread's current
/// stream (ATen/cuda/CUDAContextLight.h), before any plan is followed: they
/// keep it beyond the call that first needs it, and results depend on its size.
void placeWorkspaces();

/// Gives back what was taken for `stream`, which is about to end: LibTorch
/// keeps it for each handle and stream, whatever becomes of them.
void releaseWorkspaces(StreamHandle stream) noexcept;

/// Bytes of it for one stream.
uint64_t workspaceBytesOfStream();

/// How exact products are, and whether kernels repeat their bits, for the whole
/// process: off by default, where PyTorch has reduced-precision sums and
/// cuDNN's TF32 on. Solvers are cuSOLVER's and cuBLAS', never MAGMA's. Before
/// its first product on a GPU, and the same for all its plans.
void useArithmetic(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_WORKSPACES_H
