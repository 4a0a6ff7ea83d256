//===- Gloo.h - Ranks that are processes, over TCP --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's gloo moves bytes between pairs of ranks; sums are formed here, in
// rank order, so that they have the same bits in every run and for every back
// end on the CPU.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_GLOO_GLOO_H
#define FSDP_RUNTIME_COMM_GLOO_GLOO_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/FabricOptions.h"

#include <memory>

namespace fsdp {

class Processes;

/// Meets the other ranks; throws fsdp::Error (RendezvousInvalid,
/// RendezvousFailed, RankMissing, WorldSizeMismatch). Where SIGPIPE would end
/// the process, it is ignored from then on.
std::unique_ptr<Fabric> connectGlooFabric(const FabricOptions &options);

/// The same for ranks that have met.
std::unique_ptr<Fabric> makeGlooFabric(std::shared_ptr<Processes> processes);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_GLOO_GLOO_H
