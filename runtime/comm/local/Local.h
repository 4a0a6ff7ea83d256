//===- Local.h - Ranks that are threads of one process ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks publish pointers; data goes straight from the peers' memory to its
// destination, without staging. A rank that waits does its own part first and
// then its peers', so that waiting time is used and a `wait` depends only on
// the peers having started the transfer, never on their waiting for it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_LOCAL_LOCAL_H
#define FSDP_RUNTIME_COMM_LOCAL_LOCAL_H

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <memory>
#include <vector>

namespace fsdp {

/// Fabrics of all `worldSize` ranks, by rank; each is used by one thread. They
/// share what they need and may be destroyed in any order.
std::vector<std::unique_ptr<Fabric>>
makeLocalFabrics(int worldSize, std::chrono::milliseconds deadline);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_LOCAL_LOCAL_H
