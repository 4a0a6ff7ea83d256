//===- Devices.h - Devices by name ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_SESSION_DEVICES_H
#define FSDP_RUNTIME_SESSION_DEVICES_H

#include "plan/Target.h"
#include "runtime/device/DeviceOptions.h"
#include "runtime/exec/Device.h"

#include <memory>

namespace fsdp {

class Streams;

/// For a plan that is not for the host: the streams of the device that the rank
/// with this number on its machine (-1: not told) uses. Throws fsdp::Error as
/// `makeDevice` does.
std::shared_ptr<Streams> makeStreams(const plan::PlanT &plan, int localRank);

/// What the plan's device says. `fabric` outlives it. Throws fsdp::Error
/// (RuntimeUnsupported, DeviceFailed) if this build or machine has no such one.
std::unique_ptr<Device> makeDevice(const plan::PlanT &plan, Fabric &fabric,
                                   const DeviceOptions &options);

/// Throws fsdp::Error (RuntimeUnsupported): the plan is for the host, and the
/// back end for GPUs.
[[noreturn]] void throwMovesGpuMemory();

/// Whether this build and machine can run the plan; throws fsdp::Error as
/// `makeDevice` does, without touching any device.
void checkDevice(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_DEVICES_H
