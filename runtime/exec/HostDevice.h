//===- HostDevice.h - The device that is none -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_HOSTDEVICE_H
#define FSDP_RUNTIME_EXEC_HOSTDEVICE_H

#include "runtime/exec/Device.h"

#include <memory>

namespace fsdp {

/// The host: its memory, and no device between.
/// The device is a region of the host's memory. `copyBandwidth` as in
/// DeviceOptions.
std::unique_ptr<Device> makeHostDevice(Fabric &fabric,
                                       double copyBandwidth = 0);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_HOSTDEVICE_H
