//===- Fake.cpp - Any number of ranks without data ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Fake.h"
#include "runtime/comm/GlooTransfer.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/Staging.h"
#include "runtime/plan/DType.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

using namespace fsdp;

namespace {

class FakeCommunicator final : public Communicator {
public:
  FakeCommunicator(const GroupRanks &group, int rank,
                   std::shared_ptr<FakeFabric::Traffic> record)
      : place(static_cast<int>(std::ranges::find(group.ranks, rank) -
                               group.ranks.begin())),
        ranks(static_cast<int>(group.ranks.size())), record(std::move(record)) {
  }

  int rank() const override { return place; }
  int size() const override { return ranks; }

  Ticket startAllGather(std::span<const GatherMember> members,
                        const TransferLabel &label) override {
    Blocks blocks = stage([&](const GlooTransfer::Allocate &allocate) {
      GlooTransfer::allGather(members, place, ranks, allocate);
    });
    size_t bytes = 0;
    for (const GatherMember &member : members) {
      auto *full = static_cast<std::byte *>(member.full);
      for (int rank = 0; rank < ranks; ++rank)
        if (full + rank * member.shardBytes != member.shard)
          std::memcpy(full + rank * member.shardBytes, member.shard,
                      member.shardBytes);
      bytes += member.shardBytes * (ranks - 1);
    }
    return started(label, bytes, std::move(blocks));
  }

  Ticket startReduceScatter(std::span<const ReduceMember> members,
                            Combination combination,
                            const TransferLabel &label) override {
    Blocks blocks = stage([&](const GlooTransfer::Allocate &allocate) {
      GlooTransfer::reduceScatter(members, combination, place, ranks, allocate);
    });
    size_t bytes = 0;
    for (const ReduceMember &member : members) {
      size_t shardBytes = member.shardElements * dtypeBytes(member.dtype);
      combine(static_cast<const std::byte *>(member.full) + place * shardBytes,
              member.shard, member.shardElements, member.dtype, combination);
      bytes += shardBytes * (ranks - 1);
    }
    return started(label, bytes, std::move(blocks));
  }

  Ticket startAllReduce(std::span<const AllReduceMember> members,
                        Combination combination,
                        const TransferLabel &label) override {
    Blocks blocks = stage([&](const GlooTransfer::Allocate &allocate) {
      GlooTransfer::allReduce(members, combination, place, ranks, allocate);
    });
    size_t bytes = 0;
    for (const AllReduceMember &member : members) {
      combine(member.data, member.data, member.elements, member.dtype,
              combination);
      bytes += member.elements * dtypeBytes(member.dtype);
    }
    return started(label, bytes, std::move(blocks));
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

  /// The blocks that the transfer would hold if the ranks were processes.
  template <typename Make>
  Blocks stage(Make make) {
    Blocks blocks;
    make([&](size_t bytes) {
      blocks.push_back(staging.take(bytes));
      return blocks.back().data();
    });
    return blocks;
  }

  /// As if all ranks had `source`.
  void combine(const void *source, void *output, size_t elements,
               plan::DType dtype, Combination combination) const {
    checkReduction(dtype, combination.reduction);
    std::vector<const void *> sources(ranks, source);
    reduceRows(sources, {&output, 1}, elements, dtype, combination);
  }

  Ticket started(const TransferLabel &label, size_t bytes, Blocks blocks) {
    FakeTraffic &traffic =
        (*record)[{std::string(label.collective), std::string(label.bucket)}];
    ++traffic.calls;
    traffic.bytes += bytes;
    inFlight.emplace(next, std::move(blocks));
    return next++;
  }

  const int place;
  const int ranks;
  std::shared_ptr<FakeFabric::Traffic> record;
  Ticket next = 0;
  Staging staging;
  std::unordered_map<Ticket, Blocks> inFlight;
};

} // namespace

std::unique_ptr<Communicator>
FakeFabric::createCommunicator(const GroupRanks &group) {
  return std::make_unique<FakeCommunicator>(group, place, record);
}

std::vector<std::string> FakeFabric::exchange(const std::string &,
                                              const std::string &value) {
  return std::vector<std::string>(world, value);
}
