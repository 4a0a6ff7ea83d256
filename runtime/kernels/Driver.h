//===- Driver.h - What is used of CUDA's driver -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types and constants of cuda.h, which the driver never changes. Stated here
// because what loads and launches kernels is in every build, so that it can be
// tested without a GPU; runtime/cuda/Driver.cpp compares them with cuda.h, and
// finds the functions.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_KERNELS_DRIVER_H
#define FSDP_RUNTIME_KERNELS_DRIVER_H

#include "runtime/device/Streams.h"

// The driver's own opaque types, never defined here.
struct CUmod_st;
struct CUfunc_st;

namespace fsdp::driver {

using Module = CUmod_st *;
using Function = CUfunc_st *;

enum class Result : int {
  success = 0,
  invalidValue = 1,
  invalidContext = 201,
  invalidPtx = 218,
  invalidHandle = 400,
  notFound = 500,
  illegalAddress = 700,
  captureUnsupported = 900
};

enum class JitOption : int { errorLog = 5, errorLogBytes = 6 };

/// The functions that are used, by the driver's names.
struct Functions {
  Result (*getErrorName)(Result, const char **name);
  Result (*getErrorString)(Result, const char **text);
  Result (*moduleLoadDataEx)(Module *, const void *image, unsigned options,
                             JitOption *, void **values);
  Result (*moduleGetFunction)(Function *, Module, const char *name);
  Result (*launchKernel)(Function, unsigned gridX, unsigned gridY,
                         unsigned gridZ, unsigned blockX, unsigned blockY,
                         unsigned blockZ, unsigned sharedBytes,
                         StreamHandle stream, void **parameters, void **extra);
};

} // namespace fsdp::driver

#endif // FSDP_RUNTIME_KERNELS_DRIVER_H
