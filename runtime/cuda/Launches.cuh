//===- Launches.cuh - How kernels are launched ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_LAUNCHES_CUH
#define FSDP_RUNTIME_CUDA_LAUNCHES_CUH

#include "runtime/device/Streams.h"
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

/// Puts `kernel` on `stream`, `blocks` of `threads`; `what` names it in
/// an error. CUDA's function in place of its syntax: the same sources are C++
/// of the host where they are tested without a GPU.
template <typename... Formals, typename... Actuals>
void launchKernel(const char *what, void (*kernel)(Formals...), unsigned blocks,
                  unsigned threads, StreamHandle stream, Actuals... actuals) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  if (cudaError_t status = cudaLaunchKernelEx(&config, kernel, actuals...);
      status != cudaSuccess)
    throw Error(ErrorId::DeviceFailed,
                std::string(what) +
                    " cannot be started: " + cudaGetErrorString(status));
}

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_LAUNCHES_CUH
