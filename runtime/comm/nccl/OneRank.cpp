//===- OneRank.cpp - A group of one rank on a device ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/nccl/OneRank.h"
#include "runtime/comm/nccl/Reduction.h"

#include <set>
#include <stdexcept>

using namespace fsdp;

namespace {

class OneRankCommunicator final : public Communicator {
public:
  explicit OneRankCommunicator(std::shared_ptr<Streams> streams)
      : streams(std::move(streams)) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }

  Ticket start(const Transfer &transfer) override {
    refuseWiderSums(transfer);
    for (const Member &member : transfer.members)
      play(member, transfer);
    inFlight.insert(next);
    return next++;
  }

  // All of it is on the compute stream, in order.
  void wait(Ticket ticket) override {
    if (!inFlight.erase(ticket))
      throw std::logic_error("no transfer with this ticket is in flight");
  }

private:
  void play(const Member &member, const Transfer &transfer) {
    bool reduces = transfer.facts().reduces;
    if (reduces) // refuses what more ranks would refuse
      toNcclReduction(member.dtype, transfer.combination, /*ranks=*/1);
    move(member.to, member.from, member.bytes());
    if (reduces)
      divide(member.to, member.elements, member.dtype, transfer.combination);
  }

  void move(void *to, const void *from, size_t bytes) {
    if (to != from && bytes)
      streams->copy(to, from, bytes, streams->compute());
  }

  void divide(void *data, size_t elements, plan::DType dtype,
              const Combination &combination) {
    if (combination.reduction == plan::Reduction::max)
      return;
    double divisor = combination.reduction == plan::Reduction::avg
                         ? combination.pre
                         : combination.pre * combination.post;
    if (divisor != 1 && elements)
      streams->divide(data, elements, dtype, divisor, streams->compute());
  }

  const std::shared_ptr<Streams> streams;
  Ticket next = 0;
  std::set<Ticket> inFlight;
};

} // namespace

std::unique_ptr<Communicator>
fsdp::makeOneRankCommunicator(std::shared_ptr<Streams> streams) {
  return std::make_unique<OneRankCommunicator>(std::move(streams));
}
