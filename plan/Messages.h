//===- Messages.h - Memory of a transfer over sockets -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The back end gloo moves large members of a transfer from and to their place
// and packs small ones. What lies between is known from the plan: the runtime
// takes it, and predictions count it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_MESSAGES_H
#define FSDP_PLAN_MESSAGES_H

#include "plan/Traffic.h"

#include <cstdint>
#include <span>
#include <vector>

namespace fsdp {

/// Members of fewer bytes a rank are packed: copying them takes less time than
/// a message of their own. All of an all-reduce are, and none of a rotation,
/// which goes from place to place.
bool isPacked(CollectiveKind kind, uint64_t bytes);

/// Of a packed member of a reduction, so that each begins where its elements
/// may.
constexpr uint64_t getPackedBytes(uint64_t bytes) {
  return (bytes + 15) / 16 * 16;
}

/// Bytes of each block of memory that a transfer among `ranks` ranks takes from
/// its start to its wait, in the order in which it takes them. `members` are
/// the bytes of each that one rank alone has: a shard, or the whole tensor of
/// an all-reduce.
std::vector<uint64_t> getStagedBlocks(CollectiveKind kind,
                                      std::span<const uint64_t> members,
                                      uint64_t ranks);

/// Messages that it sends to each peer: one of all packed members, and one of
/// each other that is not empty.
size_t countMessages(CollectiveKind kind, std::span<const uint64_t> members);

} // namespace fsdp

#endif // FSDP_PLAN_MESSAGES_H
