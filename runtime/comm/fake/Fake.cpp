//===- Fake.cpp - Any number of ranks without data ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/fake/Fake.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/Staging.h"
#include "runtime/comm/gloo/Transfer.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

using namespace fsdp;

namespace {

class FakeCommunicator final : public Communicator {
public:
  FakeCommunicator(const GroupRanks &group, int rank)
      : place(static_cast<int>(std::ranges::find(group.ranks, rank) -
                               group.ranks.begin())),
        ranks(static_cast<int>(group.ranks.size())) {}

  int rank() const override { return place; }
  int size() const override { return ranks; }

  Ticket start(const Transfer &transfer) override {
    checkReductions(transfer);
    Blocks blocks;
    GlooTransfer::make(transfer, place, ranks, [&](size_t bytes) {
      blocks.push_back(staging.take(bytes));
      return blocks.back().data();
    });
    std::visit(
        [&](auto members) {
          for (const auto &member : members)
            play(member, transfer.combination);
        },
        transfer.members);
    inFlight.emplace(next, std::move(blocks));
    return next++;
  }

  void wait(Ticket ticket) override {
    auto found = inFlight.find(ticket);
    if (found == inFlight.end())
      throw std::logic_error("no transfer with this ticket is in flight");
    for (Staging::Block &block : found->second)
      staging.give(std::move(block));
    inFlight.erase(found);
  }

  size_t stagingBytes() const override { return staging.totalBytes(); }

private:
  using Blocks = std::vector<Staging::Block>;

  // As if all ranks gave what this one gives.
  void play(const GatherMember &member, const Combination &) const {
    auto *full = static_cast<std::byte *>(member.full);
    for (int rank = 0; rank < ranks; ++rank)
      if (full + rank * member.shardBytes != member.shard)
        std::memcpy(full + rank * member.shardBytes, member.shard,
                    member.shardBytes);
  }
  void play(const ReduceMember &member, const Combination &combination) const {
    size_t shardBytes = getMemberBytes(member);
    combine(static_cast<const std::byte *>(member.full) + place * shardBytes,
            member.shard, member.shardElements, member.dtype, member.result,
            combination);
  }
  void play(const AllReduceMember &member,
            const Combination &combination) const {
    combine(member.data, member.data, member.elements, member.dtype,
            member.dtype, combination);
  }

  void play(const RotateMember &member, const Combination &) const {
    std::memcpy(member.to, member.from, member.bytes);
  }

  /// As if all ranks had `source`.
  void combine(const void *source, void *output, size_t elements,
               plan::DType dtype, plan::DType result,
               const Combination &combination) const {
    std::vector<const void *> sources(ranks, source);
    reduceRows(sources, {&output, 1}, elements, dtype, result, combination);
  }

  const int place;
  const int ranks;
  Ticket next = 0;
  Staging staging;
  std::unordered_map<Ticket, Blocks> inFlight;
};

} // namespace

std::unique_ptr<Communicator>
FakeFabric::createCommunicator(const GroupRanks &group) {
  return std::make_unique<FakeCommunicator>(group, place);
}

std::vector<std::string> FakeFabric::exchange(const std::string &,
                                              const std::string &value) {
  return std::vector<std::string>(world, value);
}
