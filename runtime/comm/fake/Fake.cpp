//===- Fake.cpp - Any number of ranks without data ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/fake/Fake.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/Staging.h"
#include "runtime/comm/StopRound.h"
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
    for (const Member &member : transfer.members)
      play(member, transfer);
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

  /// As if all ranks gave what this one gives.
  void play(const Member &member, const Transfer &transfer) const {
    const CollectiveFacts &facts = transfer.facts();
    size_t bytes = member.bytes();
    const auto *from = static_cast<const std::byte *>(member.from) +
                       (isWholeGiven(facts.whole) ? place * bytes : 0);
    if (facts.reduces) {
      std::vector<const void *> sources(ranks, from);
      void *to = member.to;
      reduceRows(sources, {&to, 1}, member.elements, member.dtype,
                 member.result, transfer.combination);
      return;
    }
    auto *to = static_cast<std::byte *>(member.to);
    for (int i = 0; i < (isWholeGot(facts.whole) ? ranks : 1); ++i)
      if (to + i * bytes != from)
        std::memcpy(to + i * bytes, from, bytes);
  }

  const int place;
  const int ranks;
  Ticket next = 0;
  Staging staging;
  std::unordered_map<Ticket, Blocks> inFlight;
};

/// The others say what this rank says.
class FakeMeeting final : public Meeting {
public:
  FakeMeeting(int rank, int worldSize) : place(rank), world(worldSize) {}

  int rank() const override { return place; }
  int worldSize() const override { return world; }
  std::vector<std::string> exchange(const std::string &,
                                    const std::string &value) override {
    return std::vector<std::string>(static_cast<size_t>(world), value);
  }
  void requestStop(uint64_t rounds) override { stop.set(rounds); }
  std::optional<uint64_t> stopAfter() const noexcept override {
    return stop.get();
  }
  void abort(const std::string &) noexcept override {}

private:
  const int place;
  const int world;
  StopRound stop;
};

} // namespace

FakeFabric::FakeFabric(int rank, int worldSize)
    : Fabric(std::make_shared<FakeMeeting>(rank, worldSize)) {}

std::unique_ptr<Communicator>
FakeFabric::createCommunicator(const GroupRanks &group) {
  return std::make_unique<FakeCommunicator>(group, rank());
}
