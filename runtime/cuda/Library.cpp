//===- Library.cpp - What libfsdp-cuda.so is entered by -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Version.h"
#include "runtime/cuda/Bench.h"
#include "runtime/cuda/Device.h"
#include "runtime/session/CudaLibrary.h"

using namespace fsdp;

const CudaLibrary *fsdpCudaLibrary() {
  static constexpr CudaLibrary library = {kCompilerVersion, checkCudaDevice,
                                          makeStreamsOfRank, makeCudaDevice,
                                          makeCudaBench};
  return &library;
}
