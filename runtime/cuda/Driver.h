//===- Driver.h - The functions of CUDA's driver ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_DRIVER_H
#define FSDP_RUNTIME_CUDA_DRIVER_H

#include "runtime/kernels/Driver.h"

namespace fsdp {

/// The process's, which the CUDA runtime has loaded: nothing is linked to it,
/// since machines that only build have none. Throws fsdp::Error
/// (KernelsUnusable) if it lacks a function.
const driver::Functions &loadDriver();

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_DRIVER_H
