//===- Devices.cpp - Devices by name --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/Devices.h"

#include "runtime/comm/Communicator.h"
#include "runtime/exec/HostDevice.h"
#include "runtime/session/CudaLibrary.h"
#include "runtime/session/CudaLoader.h"
#include "support/Error.h"

using namespace fsdp;

void fsdp::throwMovesGpuMemory() {
  throw Error(ErrorId::RuntimeUnsupported,
              "the back end moves a GPU's memory, and the artifact is for "
              "device 'cpu': compile with device: cuda, or use "
              "--backend=local or gloo");
}

/// What runs a plan that is not for the host.
static const CudaLibrary &libraryFor(const plan::PlanT &plan) {
  const CudaLibrary *library = loadCudaLibrary();
  if (!library)
    throw Error(ErrorId::RuntimeUnsupported,
                "the artifact is for device '" + plan.training->device +
                    "'; this build runs on 'cpu': compile with device: cpu, or "
                    "build fsdp-run with -DFSDP_CUDA=ON");
  library->checkDevice(plan.training->device);
  return *library;
}

void fsdp::checkDevice(const plan::PlanT &plan) {
  if (!isForHost(plan))
    libraryFor(plan);
}

std::shared_ptr<Streams> fsdp::makeStreams(const plan::PlanT &plan,
                                           int localRank) {
  return libraryFor(plan).makeStreams(localRank);
}

std::unique_ptr<Device> fsdp::makeDevice(const plan::PlanT &plan,
                                         Fabric &fabric,
                                         const DeviceOptions &options) {
  if (!isForHost(plan))
    return libraryFor(plan).makeDevice(plan, fabric, options);
  if (fabric.streams())
    throwMovesGpuMemory();
  return makeHostDevice(fabric, options.copyBandwidth);
}
