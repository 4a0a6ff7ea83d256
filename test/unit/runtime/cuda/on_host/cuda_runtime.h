//===- cuda_runtime.h - CUDA's language as C++ of the host ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stands for CUDA's header of that name where kernels are compiled as C++ of
// the host: what ours use of it, and no more, so that what is new to it is
// thought about. A block's threads are fibers: one runs to its end or to the
// next barrier before another does, in an order that tests choose, since
// numbers must not depend on it. A barrier that not all threads of a block
// reach, or an exchange that not all of a warp do, fails the test. `__shared__`
// memory keeps what the last block left in it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_ON_HOST_CUDA_RUNTIME_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_ON_HOST_CUDA_RUNTIME_H

#include <cstddef>
#include <cstdint>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __grid_constant__

struct CUstream_st;
using cudaStream_t = CUstream_st *;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

/// Waits until all threads of the block are there.
void __syncthreads();

/// Another lane's value, which all lanes of a warp are there for.
uint32_t __shfl_xor_sync(unsigned lanes, uint32_t value, int otherLane);

inline unsigned atomicMax(unsigned *to, unsigned value) {
  unsigned before = *to;
  *to = before < value ? value : before;
  return before;
}

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9 };
inline const char *cudaGetErrorString(cudaError_t) {
  return "invalid configuration argument";
}

struct cudaLaunchAttribute;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned numAttrs;
};

namespace fsdp::on_host {

/// Which thread of a block, and which block of a launch, comes first.
enum class Order { forward, backward, shuffled };
inline Order order = Order::forward;

/// Runs `thread` for each thread of each block. Throws std::logic_error if a
/// barrier is not reached by all threads of a block.
cudaError_t launch(const cudaLaunchConfig_t &config,
                   const std::function<void()> &thread);

} // namespace fsdp::on_host

/// As CUDA's: arguments are copied when the kernel is launched.
template <typename... Formals, typename... Actuals>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config,
                               void (*kernel)(Formals...),
                               Actuals &&...actuals) {
  return [config, kernel](Formals... formals) {
    return fsdp::on_host::launch(*config, [&] { kernel(formals...); });
  }(static_cast<Actuals &&>(actuals)...);
}

// Each rounds once; the sources are compiled without contraction.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(
      (static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b)) >>
      64);
}

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_ON_HOST_CUDA_RUNTIME_H
