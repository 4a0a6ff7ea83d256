//===- Driver.cpp - The functions of CUDA's driver ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Driver.h"

#include "support/Error.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>
#include <type_traits>

using namespace fsdp;

// What runtime/kernels/Driver.h says is what cuda.h says.
template <auto Ours, auto Theirs>
constexpr bool same = static_cast<int>(Ours) == static_cast<int>(Theirs);

static_assert(std::is_same_v<driver::Module, CUmodule>);
static_assert(std::is_same_v<driver::Function, CUfunction>);
static_assert(std::is_same_v<StreamHandle, CUstream>);
static_assert(sizeof(driver::Result) == sizeof(CUresult));
static_assert(sizeof(driver::JitOption) == sizeof(CUjit_option));
static_assert(same<driver::Result::success, CUDA_SUCCESS>);
static_assert(same<driver::Result::invalidValue, CUDA_ERROR_INVALID_VALUE>);
static_assert(same<driver::Result::invalidContext, CUDA_ERROR_INVALID_CONTEXT>);
static_assert(same<driver::Result::invalidPtx, CUDA_ERROR_INVALID_PTX>);
static_assert(same<driver::Result::invalidHandle, CUDA_ERROR_INVALID_HANDLE>);
static_assert(same<driver::Result::notFound, CUDA_ERROR_NOT_FOUND>);
static_assert(same<driver::Result::illegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS>);
static_assert(same<driver::Result::captureUnsupported,
                   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED>);
static_assert(same<driver::JitOption::errorLog, CU_JIT_ERROR_LOG_BUFFER>);
static_assert(
    same<driver::JitOption::errorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES>);

/// What a type is passed as: enumerations of both sides have one size.
template <typename T>
struct Passed {
  using Type = T;
};
template <>
struct Passed<CUresult> {
  using Type = driver::Result;
};
template <>
struct Passed<CUjit_option *> {
  using Type = driver::JitOption *;
};
template <typename Function>
struct AsOurs;
template <typename R, typename... A>
struct AsOurs<R (*)(A...)> {
  using Type = typename Passed<R>::Type (*)(typename Passed<A>::Type...);
};

/// By the name that the driver of `version` has it under; `Theirs`: its type in
/// cuda.h.
template <typename Theirs, typename Ours>
static void find(Ours &function, const char *name, unsigned version) {
  static_assert(std::is_same_v<typename AsOurs<Theirs>::Type, Ours>);
  void *found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  cudaError_t status = cudaErrorUnknown;
#if CUDART_VERSION >= 12050
  status = cudaGetDriverEntryPointByVersion(name, &found, version,
                                            cudaEnableDefault, &result);
#else
  (void)version;
  status = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (status != cudaSuccess || result != cudaDriverEntryPointSuccess ||
      !found) {
    (void)cudaGetLastError();
    throw Error(ErrorId::KernelsUnusable,
                std::string("the GPU's driver has no '") + name +
                    "': install a driver for CUDA 12 or newer");
  }
  function = reinterpret_cast<Ours>(found);
}

const driver::Functions &fsdp::loadDriver() {
  static const driver::Functions all = [] {
    constexpr unsigned kVersion = 12000;
    driver::Functions made{};
#define FSDP_DRIVER_FUNCTION(member, name)                                     \
  find<decltype(&name)>(made.member, #name, kVersion)
    FSDP_DRIVER_FUNCTION(getErrorName, cuGetErrorName);
    FSDP_DRIVER_FUNCTION(getErrorString, cuGetErrorString);
    FSDP_DRIVER_FUNCTION(moduleLoadDataEx, cuModuleLoadDataEx);
    FSDP_DRIVER_FUNCTION(moduleGetFunction, cuModuleGetFunction);
    FSDP_DRIVER_FUNCTION(launchKernel, cuLaunchKernel);
#undef FSDP_DRIVER_FUNCTION
    return made;
  }();
  return all;
}
