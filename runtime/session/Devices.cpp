//===- Devices.cpp - Devices by name --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/Devices.h"

#include "runtime/comm/Communicator.h"
#include "runtime/exec/HostDevice.h"
#include "support/Error.h"
#ifdef FSDP_CUDA
#include "runtime/cuda/Device.h"
#endif

using namespace fsdp;

void fsdp::checkDevice(const plan::PlanT &plan) {
  if (isForHost(plan))
    return;
#ifdef FSDP_CUDA
  checkCudaDevice(plan.training->device);
#else
  throw Error(ErrorId::RuntimeUnsupported,
              "the artifact is for device '" + plan.training->device +
                  "'; this build runs on 'cpu': compile with device: cpu, or "
                  "build fsdp-run with -DFSDP_CUDA=ON");
#endif
}

std::shared_ptr<Streams> fsdp::makeStreams(const plan::PlanT &plan,
                                           int localRank) {
  checkDevice(plan);
#ifdef FSDP_CUDA
  return makeStreamsOfRank(localRank);
#else
  return nullptr;
#endif
}

std::unique_ptr<Device> fsdp::makeDevice(const plan::PlanT &plan,
                                         Fabric &fabric,
                                         const DeviceOptions &options) {
  if (!isForHost(plan)) {
    checkDevice(plan);
#ifdef FSDP_CUDA
    return makeCudaDevice(plan, fabric, options);
#endif
  }
  if (fabric.streams())
    throw Error(ErrorId::RuntimeUnsupported,
                "the back end moves a GPU's memory, and the artifact is for "
                "device 'cpu': compile with device: cuda, or use "
                "--backend=local or gloo");
  return makeHostDevice(fabric);
}
