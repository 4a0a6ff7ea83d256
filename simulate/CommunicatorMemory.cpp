//===- CommunicatorMemory.cpp - What communicators hold -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/CommunicatorMemory.h"

#include "plan/DType.h"
#include "plan/Instructions.h"
#include "plan/Messages.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

using namespace fsdp;

namespace {

/// Blocks that are used again, as runtime/comm/Staging.h does.
class Blocks {
public:
  uint64_t take(uint64_t bytes) {
    auto block = free.lower_bound(bytes);
    if (block == free.end()) {
      total += bytes;
      return bytes;
    }
    uint64_t taken = *block;
    free.erase(block);
    return taken;
  }
  void give(uint64_t block) { free.insert(block); }
  uint64_t totalBytes() const { return total; }

private:
  std::multiset<uint64_t> free;
  uint64_t total = 0;
};

using CommunicatorKey = std::pair<uint32_t, plan::Stream>;

/// What a program's transfers take of the blocks of their communicators.
void stage(const plan::PlanT &plan, const plan::ProgramT &program,
           std::map<CommunicatorKey, Blocks> &communicators) {
  std::map<uint32_t, std::pair<Blocks *, std::vector<uint64_t>>> inFlight;
  for (const auto &instruction : program.instructions) {
    if (const plan::WaitT *wait = instruction->body.AsWait()) {
      if (auto found = inFlight.find(wait->future); found != inFlight.end()) {
        for (uint64_t block : found->second.second)
          found->second.first->give(block);
        inFlight.erase(found);
      }
      continue;
    }
    const plan::TransferT *start = transferOf(*instruction);
    if (!start)
      continue;
    Blocks &blocks = communicators[{start->group, start->stream}];
    std::vector<uint64_t> taken;
    for (uint64_t bytes :
         getStagedBlocks(start->kind, membersOf(*start, plan, program),
                         plan.groups[start->group]->size))
      taken.push_back(blocks.take(bytes));
    inFlight[start->future] = {&blocks, std::move(taken)};
  }
}

} // namespace

CommunicatorMemory fsdp::getCommunicatorMemory(const plan::PlanT &plan,
                                               const NetworkModel &network) {
  std::set<CommunicatorKey> used;
  for (const auto &program : plan.programs)
    for (const auto &instruction : program->instructions)
      if (const plan::TransferT *start = transferOf(*instruction))
        if (plan.groups[start->group]->size > 1)
          used.emplace(start->group, start->stream);
  CommunicatorMemory memory;
  memory.count = used.size();
  memory.bytes = uint64_t(network.communicator) * memory.count;
  if (!network.staging)
    return memory;
  std::map<CommunicatorKey, Blocks> communicators;
  for (const auto &program : plan.programs)
    stage(plan, *program, communicators);
  for (const auto &[key, blocks] : communicators)
    memory.bytes += blocks.totalBytes();
  return memory;
}
