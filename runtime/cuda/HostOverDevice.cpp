//===- HostOverDevice.cpp - The host's bytes by a device's way ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/HostOverDevice.h"

#include "runtime/Arena.h"

#include <map>
#include <stdexcept>
#include <vector>

using namespace fsdp;

/// As NCCL and kernels like members to begin.
static constexpr uint64_t kAlignment = 256;

static uint64_t alignUp(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

namespace {

class GathersOverDevice final : public Communicator {
public:
  GathersOverDevice(std::unique_ptr<Communicator> inner, Memory &memory)
      : memory(memory), inner(std::move(inner)) {}

  int rank() const override { return inner->rank(); }
  int size() const override { return inner->size(); }

  Ticket startAllGather(std::span<const GatherMember> members,
                        const TransferLabel &label) override {
    auto ranks = static_cast<uint64_t>(size());
    uint64_t end = 0;
    for (const GatherMember &member : members)
      end += alignUp(member.shardBytes) + alignUp(member.shardBytes * ranks);
    auto buffer = std::make_unique<Arena>(end, memory);
    std::vector<GatherMember> there;
    std::vector<Piece> pieces;
    uint64_t at = 0;
    for (const GatherMember &member : members) {
      uint64_t full = at + alignUp(member.shardBytes);
      buffer->write(at, member.shard, member.shardBytes);
      there.push_back({buffer->at(at), buffer->at(full), member.shardBytes});
      pieces.push_back({member.full, full, member.shardBytes * ranks});
      at = full + alignUp(member.shardBytes * ranks);
    }
    Ticket ticket = inner->startAllGather(there, label);
    inFlight[ticket] = {std::move(buffer), std::move(pieces)};
    return ticket;
  }

  Ticket startReduceScatter(std::span<const ReduceMember>, Combination,
                            const TransferLabel &) override {
    refuse();
  }
  Ticket startAllReduce(std::span<const AllReduceMember>, Combination,
                        const TransferLabel &) override {
    refuse();
  }

  void wait(Ticket ticket) override {
    inner->wait(ticket);
    Flight &flight = inFlight.at(ticket);
    for (const Piece &piece : flight.pieces)
      flight.buffer->read(piece.from, piece.to, piece.bytes);
    inFlight.erase(ticket);
  }

private:
  struct Piece {
    void *to;
    uint64_t from, bytes;
  };
  struct Flight {
    std::unique_ptr<Arena> buffer;
    std::vector<Piece> pieces;
  };

  [[noreturn]] static void refuse() {
    throw std::logic_error("the host's memory is only gathered");
  }

  // In this order: transfers end before their buffers do.
  Memory &memory;
  std::map<Ticket, Flight> inFlight;
  std::unique_ptr<Communicator> inner;
};

} // namespace

std::unique_ptr<Communicator>
HostOverDevice::createHostCommunicator(const GroupRanks &group) {
  return std::make_unique<GathersOverDevice>(device.createCommunicator(group),
                                             memory);
}
