//===- Nccl.h - Ranks that are processes, each with a GPU -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_NCCL_NCCL_H
#define FSDP_RUNTIME_COMM_NCCL_NCCL_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/FabricOptions.h"
#include "runtime/comm/Peers.h"

#include <memory>

namespace fsdp {

/// Tells NCCL by its variables in the process's environment, unless they are
/// set, to keep the order of the calls and to register nothing in a capture.
/// Where it was not called, transfers of different streams do not overlap.
/// Not while other threads may read the environment.
void prepareNccl();

/// Meets the other ranks as gloo does, and moves tensors by NCCL, whose
/// identifiers are exchanged there; gloo moves what lies in the host's memory.
/// Needs `options.streams`. Throws fsdp::Error: what the meeting throws,
/// NcclUnusable, and DeviceFailed if two ranks share a GPU, which NCCL refuses.
///
/// FSDP_NCCL_LIBRARY names the library to load; FSDP_NCCL_REGISTER=1 has the
/// arena registered (docs/Gpus.md).
std::unique_ptr<Fabric> connectNcclFabric(const FabricOptions &options);

/// The same with ranks that have met. `forHost` makes the communicators for the
/// host's memory; null: there is none beside the device's.
std::unique_ptr<Fabric>
makeNcclFabric(std::shared_ptr<Peers> peers, const FabricOptions &options,
               std::unique_ptr<Fabric> forHost = nullptr);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_NCCL_NCCL_H
