//===- Transfer.cpp - One transfer as messages ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/gloo/Transfer.h"
#include "plan/DType.h"
#include "plan/Messages.h"
#include "runtime/comm/Reduce.h"

#include <cstring>

using namespace fsdp;

namespace {

/// Where the parts that this rank gets of one reduced member lie.
struct ReducedMember {
  const std::byte *own;
  const std::byte *received; ///< by rank, without room for the own part
  size_t stride;
  std::byte *out;
  size_t elements;
  plan::DType dtype, result;
};

/// Reduces all members in rank order.
struct Combine {
  std::vector<ReducedMember> members;
  Combination combination;
  int rank, size;

  void operator()() const {
    std::vector<const void *> sources(size);
    for (const ReducedMember &member : members) {
      for (int peer = 0; peer < size; ++peer)
        sources[peer] =
            peer == rank ? member.own
                         : member.received +
                               (peer < rank ? peer : peer - 1) * member.stride;
      void *out = member.out;
      reduceRows(sources, {&out, 1}, member.elements, member.dtype,
                 member.result, combination);
    }
  }
};

} // namespace

static std::byte *asBytes(void *pointer) {
  return static_cast<std::byte *>(pointer);
}

static const std::byte *asBytes(const void *pointer) {
  return static_cast<const std::byte *>(pointer);
}

GlooTransfer GlooTransfer::allGather(std::span<const GatherMember> members,
                                     int rank, int size,
                                     const Allocate &allocate) {
  GlooTransfer transfer;
  std::vector<GatherMember> small;
  size_t packed = 0;
  for (const GatherMember &member : members) {
    std::byte *own = asBytes(member.full) + rank * member.shardBytes;
    if (own != member.shard && member.shardBytes)
      std::memcpy(own, member.shard, member.shardBytes);
    if (!member.shardBytes)
      continue;
    if (isPacked(CollectiveKind::allGather, member.shardBytes)) {
      packed += member.shardBytes;
      small.push_back(member);
    } else {
      transfer.messages.push_back({member.shardBytes, own, 0,
                                   asBytes(member.full), member.shardBytes,
                                   true});
    }
  }
  if (small.empty()) {
    transfer.finish = [] {};
    return transfer;
  }
  // Rank-major; this rank's part is what it sends.
  std::byte *staging = allocate(packed * size);
  std::byte *mine = staging + rank * packed;
  size_t offset = 0;
  for (const GatherMember &member : small) {
    std::memcpy(mine + offset, member.shard, member.shardBytes);
    offset += member.shardBytes;
  }
  transfer.messages.push_back({packed, mine, 0, staging, packed, true});
  transfer.finish = [small = std::move(small), staging, packed, rank, size] {
    for (int peer = 0; peer < size; ++peer) {
      const std::byte *part = staging + peer * packed;
      for (const GatherMember &member : small) {
        if (peer != rank)
          std::memcpy(asBytes(member.full) + peer * member.shardBytes, part,
                      member.shardBytes);
        part += member.shardBytes;
      }
    }
  };
  return transfer;
}

GlooTransfer GlooTransfer::reduceScatter(std::span<const ReduceMember> members,
                                         Combination combination, int rank,
                                         int size, const Allocate &allocate) {
  GlooTransfer transfer;
  Combine combine{{}, combination, rank, size};
  std::vector<ReduceMember> small;
  size_t packed = 0;
  for (const ReduceMember &member : members) {
    size_t bytes = member.shardElements * dtypeBytes(member.dtype);
    if (!bytes)
      continue;
    if (isPacked(CollectiveKind::reduceScatter, bytes)) {
      // Aligned for its elements, wherever the others end.
      packed += getPackedBytes(bytes);
      small.push_back(member);
      continue;
    }
    std::byte *received = allocate(bytes * (size - 1));
    transfer.messages.push_back(
        {bytes, asBytes(member.full), bytes, received, bytes, false});
    combine.members.push_back({asBytes(member.full) + rank * bytes, received,
                               bytes, asBytes(member.shard),
                               member.shardElements, member.dtype,
                               member.result});
  }
  if (!small.empty()) {
    std::byte *sent = allocate(packed * size);
    std::byte *received = allocate(packed * (size - 1));
    size_t offset = 0;
    for (const ReduceMember &member : small) {
      size_t bytes = member.shardElements * dtypeBytes(member.dtype);
      for (int peer = 0; peer < size; ++peer)
        if (peer != rank)
          std::memcpy(sent + peer * packed + offset,
                      asBytes(member.full) + peer * bytes, bytes);
      combine.members.push_back({asBytes(member.full) + rank * bytes,
                                 received + offset, packed,
                                 asBytes(member.shard), member.shardElements,
                                 member.dtype, member.result});
      offset += getPackedBytes(bytes);
    }
    transfer.messages.push_back(
        {packed, sent, packed, received, packed, false});
  }
  transfer.finish = std::move(combine);
  return transfer;
}

GlooTransfer GlooTransfer::allReduce(std::span<const AllReduceMember> members,
                                     Combination combination, int rank,
                                     int size, const Allocate &allocate) {
  GlooTransfer transfer;
  Combine combine{{}, combination, rank, size};
  size_t packed = 0;
  for (const AllReduceMember &member : members)
    packed += getPackedBytes(member.elements * dtypeBytes(member.dtype));
  transfer.finish = [] {};
  if (!packed)
    return transfer;
  std::byte *mine = allocate(packed * size);
  std::byte *received = mine + packed;
  size_t offset = 0;
  for (const AllReduceMember &member : members) {
    size_t bytes = member.elements * dtypeBytes(member.dtype);
    if (!bytes)
      continue;
    std::memcpy(mine + offset, member.data, bytes);
    combine.members.push_back({mine + offset, received + offset, packed,
                               asBytes(member.data), member.elements,
                               member.dtype, member.dtype});
    offset += getPackedBytes(bytes);
  }
  transfer.messages.push_back({packed, mine, 0, received, packed, false});
  transfer.finish = std::move(combine);
  return transfer;
}

GlooTransfer GlooTransfer::rotate(std::span<const RotateMember> members,
                                  int rank, int size) {
  GlooTransfer transfer;
  for (const RotateMember &member : members)
    if (member.bytes && size > 1)
      transfer.messages.push_back(
          {member.bytes, asBytes(member.from), 0, asBytes(member.to), 0, true,
           (rank + 1) % size, (rank + size - 1) % size});
  transfer.finish = [members = std::vector(members.begin(), members.end()),
                     size] {
    if (size == 1)
      for (const RotateMember &member : members)
        std::memcpy(member.to, member.from, member.bytes);
  };
  return transfer;
}

GlooTransfer GlooTransfer::make(const Transfer &transfer, int rank, int size,
                                const Allocate &allocate) {
  return std::visit(
      Overloaded{[&](std::span<const GatherMember> members) {
                   return allGather(members, rank, size, allocate);
                 },
                 [&](std::span<const ReduceMember> members) {
                   return reduceScatter(members, transfer.combination, rank,
                                        size, allocate);
                 },
                 [&](std::span<const AllReduceMember> members) {
                   return allReduce(members, transfer.combination, rank, size,
                                    allocate);
                 },
                 [&](std::span<const RotateMember> members) {
                   return rotate(members, rank, size);
                 }},
      transfer.members);
}
