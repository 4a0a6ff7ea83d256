//===- Transfer.cpp - One transfer among threads --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/local/Transfer.h"
#include "plan/DType.h"
#include "runtime/comm/Reduce.h"
#include "support/Error.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

using namespace fsdp;

/// Bytes a task moves: enough to make taking it free, little enough to share
/// one tensor among the ranks.
static constexpr size_t kPieceBytes = size_t(1) << 20;

static std::string print(CollectiveKind kind, std::span<const Member> members) {
  std::string text = std::string(getName(kind)) + " of";
  for (const Member &member : members)
    text += " " + std::to_string(isReduction(kind) ? member.elements
                                                   : member.bytes());
  return text + (isReduction(kind) ? " elements" : " bytes");
}

LocalTransfer::LocalTransfer(int size, CollectiveKind kind,
                             Combination combination)
    : size(size), kind(kind), combination(std::move(combination)),
      members(size), present(size), lanes(size) {}

bool LocalTransfer::publish(int rank, const Transfer &transfer) {
  auto earlier = std::find(present.begin(), present.end(), true);
  if (earlier != present.end()) {
    int other = static_cast<int>(earlier - present.begin());
    if (transfer.kind() != kind || transfer.combination != combination ||
        !haveSameShape(transfer.members, members[other]))
      throw Error(ErrorId::CollectiveMismatch,
                  "expected what rank " + std::to_string(other) + " started, " +
                      print(kind, members[other]) + ", found " +
                      print(transfer.kind(), transfer.members) +
                      "; give all ranks the same artifact");
  }
  members[rank] = keep(transfer.members);
  present[rank] = true;
  return ++arrived == size;
}

void LocalTransfer::open() {
  const CollectiveFacts &facts = getFacts(kind);
  // What is gathered comes from each rank by itself.
  int sources = isWholeGot(facts.whole) ? size : 1;
  for (uint32_t index = 0; index < members[0].size(); ++index) {
    const Member &member = members[0][index];
    size_t step = kPieceBytes / dtypeBytes(member.dtype);
    for (int source = 0; source < sources; ++source)
      for (size_t begin = 0; begin < member.elements; begin += step)
        pieces.push_back(
            {index, source, begin, std::min(step, member.elements - begin)});
  }
  total = facts.isInPlace ? pieces.size() : pieces.size() * size;
  opened.store(true, std::memory_order_release);
}

bool LocalTransfer::work(int rank) {
  bool shared = getFacts(kind).isInPlace;
  bool last = false;
  ++working;
  for (int i = 0; i < size; ++i) {
    int lane = (rank + i) % size;
    // The pieces of an all-reduce are dealt out to the lanes in turn.
    size_t first = shared ? lane : 0, stride = shared ? size : 1;
    while (!cancelled) {
      size_t task = lanes[lane].next.fetch_add(1, std::memory_order_relaxed);
      size_t piece = first + task * stride;
      if (piece >= pieces.size())
        break;
      run(lane, pieces[piece]);
      last |= finished.fetch_add(1, std::memory_order_acq_rel) + 1 == total;
    }
  }
  --working;
  return last;
}

void LocalTransfer::cancel() {
  cancelled = true;
  while (working)
    std::this_thread::yield();
}

static std::byte *at(void *memory, size_t bytes) {
  return static_cast<std::byte *>(memory) + bytes;
}
static const std::byte *at(const void *memory, size_t bytes) {
  return static_cast<const std::byte *>(memory) + bytes;
}

void LocalTransfer::run(int lane, const Piece &piece) const {
  if (isReduction(kind))
    return reduce(lane, piece);
  const Member &to = members[lane][piece.member];
  size_t unit = dtypeBytes(to.dtype), begin = piece.begin * unit;
  int source =
      kind == CollectiveKind::rotate ? (lane + size - 1) % size : piece.source;
  // A shard may lie at its place among all ranks'.
  size_t part = isWholeGiven(getFacts(kind).whole) ? lane * to.bytes() : 0;
  const std::byte *from = at(members[source][piece.member].from, part + begin);
  std::byte *target = at(to.to, begin + piece.source * to.bytes());
  if (target != from)
    std::memcpy(target, from, piece.count * unit);
}

void LocalTransfer::reduce(int lane, const Piece &piece) const {
  bool isShared = getFacts(kind).isInPlace;
  const Member &own = members[lane][piece.member];
  size_t begin = piece.begin * dtypeBytes(own.dtype);
  std::vector<const void *> sources;
  std::vector<void *> outputs;
  for (int rank = 0; rank < size; ++rank) {
    const Member &member = members[rank][piece.member];
    sources.push_back(
        at(member.from, (isShared ? 0 : lane * own.bytes()) + begin));
    if (isShared || rank == lane)
      outputs.push_back(at(member.to, piece.begin * dtypeBytes(own.result)));
  }
  reduceRows(sources, outputs, piece.count, own.dtype, own.result, combination);
}

std::vector<int> LocalTransfer::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank)
    if (!present[rank])
      ranks.push_back(rank);
  return ranks;
}
