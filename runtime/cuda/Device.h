//===- Device.h - A rank on a CUDA device -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_DEVICE_H
#define FSDP_RUNTIME_CUDA_DEVICE_H

#include "runtime/device/DeviceOptions.h"
#include "runtime/exec/Device.h"

#include <memory>
#include <string>

namespace fsdp {

/// Whether this machine has a device for `name`, a plan's "cuda:sm_90"; throws
/// fsdp::Error (RuntimeUnsupported).
void checkCudaDevice(const std::string &name);

/// Those of the device with that number, or of the first one where the number
/// is -1, or where this process may use only one.
std::shared_ptr<Streams> makeStreamsOfRank(int localRank);

/// The device that the fabric's transfers are on, or else `options` names; with
/// neither the first one, which all ranks of this process share. Throws
/// fsdp::Error, RuntimeUnsupported if it is older than the plan's.
std::unique_ptr<Device> makeCudaDevice(const plan::PlanT &plan, Fabric &fabric,
                                       const DeviceOptions &options);

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_DEVICE_H
