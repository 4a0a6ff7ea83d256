//===- CommunicatorMemory.h - What communicators hold -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_COMMUNICATORMEMORY_H
#define FSDP_SIMULATE_COMMUNICATORMEMORY_H

#include "plan/plan_generated.h"
#include "simulate/Cluster.h"

#include <cstdint>

namespace fsdp {

/// Of one rank, beside what is planned.
struct CommunicatorMemory {
  uint64_t count = 0; ///< of several ranks each
  uint64_t bytes = 0; ///< of what the device's memory is of
};

/// A rank has a communicator for each group of ranks and stream that the plan
/// uses (runtime/exec/Transfers.h). On a device each takes what the cluster
/// says; where messages are staged, as much as the transfers of the plan have
/// in flight.
CommunicatorMemory getCommunicatorMemory(const plan::PlanT &plan,
                                         const NetworkModel &network);

} // namespace fsdp

#endif // FSDP_SIMULATE_COMMUNICATORMEMORY_H
