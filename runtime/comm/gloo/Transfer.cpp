//===- Transfer.cpp - One transfer as messages ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/gloo/Transfer.h"
#include "plan/DType.h"
#include "plan/Messages.h"
#include "runtime/comm/Reduce.h"

#include <cstring>
#include <stdexcept>

using namespace fsdp;
using Allocate = GlooTransfer::Allocate;

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

static GlooTransfer allGather(std::span<const Member> members, int rank,
                              int size, const Allocate &allocate) {
  GlooTransfer transfer;
  Members small;
  size_t packed = 0;
  for (const Member &member : members) {
    std::byte *own = asBytes(member.to) + rank * member.bytes();
    if (own != member.from && member.bytes())
      std::memcpy(own, member.from, member.bytes());
    if (!member.bytes())
      continue;
    if (isPacked(CollectiveKind::all_gather, member.bytes())) {
      packed += member.bytes();
      small.push_back(member);
    } else {
      transfer.messages.push_back(
          {member.bytes(), own, 0, asBytes(member.to), member.bytes(), true});
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
  for (const Member &member : small) {
    std::memcpy(mine + offset, member.from, member.bytes());
    offset += member.bytes();
  }
  transfer.messages.push_back({packed, mine, 0, staging, packed, true});
  transfer.finish = [small = std::move(small), staging, packed, rank, size] {
    for (int peer = 0; peer < size; ++peer) {
      const std::byte *part = staging + peer * packed;
      for (const Member &member : small) {
        if (peer != rank)
          std::memcpy(asBytes(member.to) + peer * member.bytes(), part,
                      member.bytes());
        part += member.bytes();
      }
    }
  };
  return transfer;
}

static GlooTransfer reduceScatter(std::span<const Member> members,
                                  const Combination &combination, int rank,
                                  int size, const Allocate &allocate) {
  GlooTransfer transfer;
  Combine combine{{}, combination, rank, size};
  Members small;
  size_t packed = 0;
  for (const Member &member : members) {
    size_t bytes = member.bytes();
    if (!bytes)
      continue;
    if (isPacked(CollectiveKind::reduce_scatter, bytes)) {
      // Aligned for its elements, wherever the others end.
      packed += getPackedBytes(bytes);
      small.push_back(member);
      continue;
    }
    std::byte *received = allocate(bytes * (size - 1));
    transfer.messages.push_back(
        {bytes, asBytes(member.from), bytes, received, bytes, false});
    combine.members.push_back({asBytes(member.from) + rank * bytes, received,
                               bytes, asBytes(member.to), member.elements,
                               member.dtype, member.result});
  }
  if (!small.empty()) {
    std::byte *sent = allocate(packed * size);
    std::byte *received = allocate(packed * (size - 1));
    size_t offset = 0;
    for (const Member &member : small) {
      size_t bytes = member.bytes();
      for (int peer = 0; peer < size; ++peer)
        if (peer != rank)
          std::memcpy(sent + peer * packed + offset,
                      asBytes(member.from) + peer * bytes, bytes);
      combine.members.push_back({asBytes(member.from) + rank * bytes,
                                 received + offset, packed, asBytes(member.to),
                                 member.elements, member.dtype, member.result});
      offset += getPackedBytes(bytes);
    }
    transfer.messages.push_back(
        {packed, sent, packed, received, packed, false});
  }
  transfer.finish = std::move(combine);
  return transfer;
}

static GlooTransfer allReduce(std::span<const Member> members,
                              const Combination &combination, int rank,
                              int size, const Allocate &allocate) {
  GlooTransfer transfer;
  Combine combine{{}, combination, rank, size};
  size_t packed = 0;
  for (const Member &member : members)
    packed += getPackedBytes(member.bytes());
  transfer.finish = [] {};
  if (!packed)
    return transfer;
  std::byte *mine = allocate(packed * size);
  std::byte *received = mine + packed;
  size_t offset = 0;
  for (const Member &member : members) {
    size_t bytes = member.bytes();
    if (!bytes)
      continue;
    std::memcpy(mine + offset, member.from, bytes);
    combine.members.push_back({mine + offset, received + offset, packed,
                               asBytes(member.to), member.elements,
                               member.dtype, member.result});
    offset += getPackedBytes(bytes);
  }
  transfer.messages.push_back({packed, mine, 0, received, packed, false});
  transfer.finish = std::move(combine);
  return transfer;
}

static GlooTransfer allToAll(std::span<const Member> members, int rank,
                             int size, const Allocate &allocate) {
  GlooTransfer transfer;
  Members small;
  size_t packed = 0;
  for (const Member &member : members) {
    size_t bytes = member.bytes();
    if (!bytes)
      continue;
    std::memcpy(asBytes(member.to) + rank * bytes,
                asBytes(member.from) + rank * bytes, bytes);
    if (isPacked(CollectiveKind::all_to_all, bytes)) {
      packed += bytes;
      small.push_back(member);
    } else {
      transfer.messages.push_back({bytes, asBytes(member.from), bytes,
                                   asBytes(member.to), bytes, true});
    }
  }
  transfer.finish = [] {};
  if (small.empty())
    return transfer;
  std::byte *sent = allocate(packed * size);
  std::byte *received = allocate(packed * (size - 1));
  std::byte *next = sent;
  for (int peer = 0; peer < size; ++peer)
    for (const Member &member : small) {
      std::memcpy(next, asBytes(member.from) + peer * member.bytes(),
                  member.bytes());
      next += member.bytes();
    }
  transfer.messages.push_back({packed, sent, packed, received, packed, false});
  transfer.finish = [small = std::move(small), received, rank, size] {
    const std::byte *part = received;
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank)
        for (const Member &member : small) {
          std::memcpy(asBytes(member.to) + peer * member.bytes(), part,
                      member.bytes());
          part += member.bytes();
        }
  };
  return transfer;
}

static GlooTransfer rotate(std::span<const Member> members, int rank,
                           int size) {
  GlooTransfer transfer;
  for (const Member &member : members)
    if (member.bytes() && size > 1)
      transfer.messages.push_back(
          {member.bytes(), asBytes(member.from), 0, asBytes(member.to), 0, true,
           (rank + 1) % size, (rank + size - 1) % size});
  transfer.finish = [members = keep(members), size] {
    if (size == 1)
      for (const Member &member : members)
        std::memcpy(member.to, member.from, member.bytes());
  };
  return transfer;
}

GlooTransfer GlooTransfer::make(const Transfer &transfer, int rank, int size,
                                const Allocate &allocate) {
  std::span<const Member> members = transfer.members;
  switch (transfer.kind()) {
  case CollectiveKind::all_gather:
    return allGather(members, rank, size, allocate);
  case CollectiveKind::reduce_scatter:
    return reduceScatter(members, transfer.combination, rank, size, allocate);
  case CollectiveKind::all_reduce:
    return allReduce(members, transfer.combination, rank, size, allocate);
  case CollectiveKind::rotate:
    return rotate(members, rank, size);
  case CollectiveKind::all_to_all:
    return allToAll(members, rank, size, allocate);
  }
  throw std::logic_error("a transfer of an unknown kind");
}
