//===- Launches.cuh - How kernels are launched ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_LAUNCHES_CUH
#define FSDP_RUNTIME_CUDA_LAUNCHES_CUH

#include "support/Error.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

namespace fsdp {

inline constexpr unsigned kThreads = 256;

/// Of kernels whose threads step over elements: enough to fill any device.
inline unsigned blocksFor(size_t elements) {
  constexpr size_t kMostBlocks = 4096;
  return static_cast<unsigned>(
      std::clamp<size_t>((elements + kThreads - 1) / kThreads, 1, kMostBlocks));
}

/// Behind a launch.
inline void checkLaunch(const char *what) {
  if (cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw Error(ErrorId::DeviceFailed,
                std::string(what) +
                    " cannot be started: " + cudaGetErrorString(status));
}

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_LAUNCHES_CUH
