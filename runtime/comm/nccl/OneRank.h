//===- OneRank.h - A group of one rank on a device --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_NCCL_ONERANK_H
#define FSDP_RUNTIME_COMM_NCCL_ONERANK_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/Streams.h"

#include <memory>

namespace fsdp {

/// Transfers of a rank with itself: nothing, where the shard lies at its place,
/// else one copy on the compute stream, and the divisions of sums.
std::unique_ptr<Communicator>
makeOneRankCommunicator(std::shared_ptr<Streams> streams);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_NCCL_ONERANK_H
