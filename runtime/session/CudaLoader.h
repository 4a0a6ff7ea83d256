//===- CudaLoader.h - Load CUDA when a plan needs it ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_SESSION_CUDALOADER_H
#define FSDP_RUNTIME_SESSION_CUDALOADER_H

namespace fsdp {

struct CudaLibrary;

/// Whether libfsdp-cuda.so lies beside this library: whether the build has
/// CUDA. Loads nothing.
bool hasCudaLibrary();

/// libfsdp-cuda.so, loaded by the first call; it stays. nullptr if there is
/// none. Throws fsdp::Error (RuntimeUnsupported) if it cannot be loaded, is of
/// another version, or comes too late for LibTorch.
const CudaLibrary *loadCudaLibrary();

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_CUDALOADER_H
