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

static std::string print(const KeptMembers &members) {
  std::string text = std::string(getName(getCollectiveKind(members))) + " of";
  for (auto [amount, dtype] : shapeOf(members))
    text += " " + std::to_string(amount);
  return text +
         (isReduction(getCollectiveKind(members)) ? " elements" : " bytes");
}

LocalTransfer::LocalTransfer(int size, Combination combination)
    : size(size), combination(combination), members(size), present(size),
      lanes(size) {}

bool LocalTransfer::publish(int rank, KeptMembers published,
                            Combination publishedCombination) {
  auto earlier = std::find(present.begin(), present.end(), true);
  if (earlier != present.end()) {
    int other = static_cast<int>(earlier - present.begin());
    if (published.index() != members[other].index() ||
        publishedCombination != combination ||
        shapeOf(published) != shapeOf(members[other]))
      throw Error(ErrorId::CollectiveMismatch,
                  "expected what rank " + std::to_string(other) + " started, " +
                      print(members[other]) + ", found " + print(published) +
                      "; give all ranks the same artifact");
  }
  members[rank] = std::move(published);
  present[rank] = true;
  return ++arrived == size;
}

void LocalTransfer::open() {
  auto cut = [&](uint32_t member, int source, size_t amount, size_t unit) {
    size_t step = kPieceBytes / unit;
    for (size_t begin = 0; begin < amount; begin += step)
      pieces.push_back({member, source, begin, std::min(step, amount - begin)});
  };
  uint32_t index = 0;
  if (auto *gathers = std::get_if<std::vector<GatherMember>>(&members[0]))
    for (const GatherMember &member : *gathers) {
      for (int source = 0; source < size; ++source)
        cut(index, source, member.shardBytes, 1);
      ++index;
    }
  else if (auto *reduces = std::get_if<std::vector<ReduceMember>>(&members[0]))
    for (const ReduceMember &member : *reduces)
      cut(index++, 0, member.shardElements, dtypeBytes(member.dtype));
  else if (auto *rotates = std::get_if<std::vector<RotateMember>>(&members[0]))
    for (const RotateMember &member : *rotates)
      cut(index++, 0, member.bytes, 1);
  else
    for (const AllReduceMember &member :
         std::get<std::vector<AllReduceMember>>(members[0]))
      cut(index++, 0, member.elements, dtypeBytes(member.dtype));
  bool shared =
      std::holds_alternative<std::vector<AllReduceMember>>(members[0]);
  total = shared ? pieces.size() : pieces.size() * size;
  opened.store(true, std::memory_order_release);
}

bool LocalTransfer::work(int rank) {
  bool shared =
      std::holds_alternative<std::vector<AllReduceMember>>(members[0]);
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

void LocalTransfer::run(int lane, const Piece &piece) const {
  if (auto *gathers = std::get_if<std::vector<GatherMember>>(&members[lane])) {
    const GatherMember &to = (*gathers)[piece.member];
    const GatherMember &from = std::get<std::vector<GatherMember>>(
        members[piece.source])[piece.member];
    auto *target = static_cast<std::byte *>(to.full) +
                   piece.source * to.shardBytes + piece.begin;
    auto *source = static_cast<const std::byte *>(from.shard) + piece.begin;
    if (target != source) // a shard may lie at its place in `full`
      std::memcpy(target, source, piece.count);
    return;
  }
  if (auto *rotates = std::get_if<std::vector<RotateMember>>(&members[lane])) {
    const RotateMember &from = std::get<std::vector<RotateMember>>(
        members[(lane + size - 1) % size])[piece.member];
    std::memcpy(
        static_cast<std::byte *>((*rotates)[piece.member].to) + piece.begin,
        static_cast<const std::byte *>(from.from) + piece.begin, piece.count);
    return;
  }
  std::vector<const void *> sources(size);
  std::vector<void *> outputs;
  plan::DType dtype = plan::DType::u8, result = dtype;
  if (auto *reduces = std::get_if<std::vector<ReduceMember>>(&members[lane])) {
    const ReduceMember &to = (*reduces)[piece.member];
    dtype = to.dtype;
    result = to.result;
    size_t unit = dtypeBytes(dtype);
    for (int rank = 0; rank < size; ++rank)
      sources[rank] =
          static_cast<const std::byte *>(
              std::get<std::vector<ReduceMember>>(members[rank])[piece.member]
                  .full) +
          (lane * to.shardElements + piece.begin) * unit;
    outputs = {static_cast<std::byte *>(to.shard) +
               piece.begin * dtypeBytes(result)};
  } else {
    for (int rank = 0; rank < size; ++rank) {
      const AllReduceMember &member =
          std::get<std::vector<AllReduceMember>>(members[rank])[piece.member];
      dtype = result = member.dtype;
      outputs.push_back(static_cast<std::byte *>(member.data) +
                        piece.begin * dtypeBytes(dtype));
      sources[rank] = outputs.back();
    }
  }
  reduceRows(sources, outputs, piece.count, dtype, result, combination);
}

std::vector<int> LocalTransfer::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank)
    if (!present[rank])
      ranks.push_back(rank);
  return ranks;
}
