//===- Messages.cpp - What a transfer over sockets takes of memory --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Messages.h"

using namespace fsdp;

static constexpr uint64_t kPackedBelow = 32 << 10;

bool fsdp::isPacked(CollectiveKind kind, uint64_t bytes) {
  Packing packing = getFacts(kind).packing;
  return packing == Packing::all ||
         (packing == Packing::small && bytes < kPackedBelow);
}

std::vector<uint64_t> fsdp::getStagedBlocks(CollectiveKind kind,
                                            std::span<const uint64_t> members,
                                            uint64_t ranks) {
  const CollectiveFacts &facts = getFacts(kind);
  // Each peer's part is kept until all are there.
  bool keepsParts = facts.reduces && facts.whole == Whole::given;
  std::vector<uint64_t> blocks;
  uint64_t packed = 0;
  for (uint64_t bytes : members) {
    if (isPacked(kind, bytes))
      packed += facts.reduces ? getPackedBytes(bytes) : bytes;
    else if (keepsParts)
      blocks.push_back(bytes * (ranks - 1));
  }
  if (packed == 0)
    return blocks;
  blocks.push_back(packed * ranks);
  // What each peer is sent differs, so that what comes lies elsewhere.
  if (isWholeGiven(facts.whole))
    blocks.push_back(packed * (ranks - 1));
  return blocks;
}

size_t fsdp::countMessages(CollectiveKind kind,
                           std::span<const uint64_t> members) {
  size_t alone = 0;
  bool isAnyPacked = false;
  for (uint64_t bytes : members) {
    if (bytes == 0)
      continue;
    if (isPacked(kind, bytes))
      isAnyPacked = true;
    else
      ++alone;
  }
  return alone + (isAnyPacked ? 1 : 0);
}
