//===- Attribution.h - Which instruction a device worked for ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_PROFILE_ATTRIBUTION_H
#define FSDP_RUNTIME_PROFILE_ATTRIBUTION_H

#include "plan/Activities.h"
#include "runtime/profile/Collect.h"
#include "runtime/profile/DeviceActivities.h"

#include <vector>

namespace fsdp {

/// What rank `rank` recorded of runs on a device, in the terms of a host: as if
/// a thread had done what the rank's compute stream did.
///
/// * An instruction that computes lasts from the begin of its first piece of
///   work to the end of its last one; one that the host computes, as the host
///   says.
/// * A start takes no time, and stands where the stream has come to it. When
///   the transfer really moved is in `moves`. Of ranks that share the device
///   one puts a transfer there for all of its group.
/// * A wait lasts until the transfer is over, if the stream had nothing to do
///   for so long.
///
/// Work without a mark belongs to the start during which the host asked for it:
/// libraries put transfers on the device from threads of their own.
///
/// `words` by program; the recorder has watched a device.
RankProfile attributeActivities(const plan::PlanT &plan,
                                const std::vector<std::vector<Activity>> &words,
                                const ProfileRecorder &recorder, int rank,
                                const DeviceListing &listing);

} // namespace fsdp

#endif // FSDP_RUNTIME_PROFILE_ATTRIBUTION_H
