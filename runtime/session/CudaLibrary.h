//===- CudaLibrary.h - What libfsdp-cuda.so does ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libfsdp-cuda.so (runtime/cuda) is loaded by libfsdp-runtime.so when a plan is
// for a GPU: LibTorch's CUDA part takes memory and time of every process that
// it is in.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_SESSION_CUDALIBRARY_H
#define FSDP_RUNTIME_SESSION_CUDALIBRARY_H

#include "runtime/device/DeviceOptions.h"
#include "runtime/exec/Device.h"

#include <memory>
#include <string>
#include <string_view>

namespace fsdp {

class Bench;
class Fabric;
class Streams;

/// The functions of the library, all of which throw fsdp::Error; Device.h of
/// runtime/cuda says when.
struct CudaLibrary {
  /// Of the build: classes cross the border, so both are of one version.
  std::string_view version;
  void (*checkDevice)(const std::string &name);
  std::shared_ptr<Streams> (*makeStreams)(int localRank);
  std::unique_ptr<Device> (*makeDevice)(const plan::PlanT &plan, Fabric &fabric,
                                        const DeviceOptions &options);
  /// To be measured: the rank's GPU beside those of the fabric's other ranks,
  /// which outlives it; null: alone.
  std::unique_ptr<Bench> (*makeBench)(std::shared_ptr<Streams> streams,
                                      Fabric *fabric);
};

} // namespace fsdp

/// What the library is entered by. Never freed.
extern "C" const fsdp::CudaLibrary *fsdpCudaLibrary();

#endif // FSDP_RUNTIME_SESSION_CUDALIBRARY_H
