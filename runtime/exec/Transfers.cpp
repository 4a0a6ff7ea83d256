//===- Transfers.cpp - The communicators of a plan ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Transfers.h"

#include "plan/Instructions.h"

#include <set>

using namespace fsdp;

int fsdp::groupPosition(const plan::GroupT &group, int rank) {
  return rank / static_cast<int>(group.stride) % static_cast<int>(group.size);
}

std::vector<int> fsdp::groupRanks(const plan::GroupT &group, int rank) {
  int stride = static_cast<int>(group.stride);
  int base = rank - groupPosition(group, rank) * stride;
  std::vector<int> ranks;
  for (int i = 0; i < static_cast<int>(group.size); ++i)
    ranks.push_back(base + i * stride);
  return ranks;
}

Transfers::Transfers(const plan::PlanT &plan, Fabric &fabric)
    : plan(plan), ring(fabric.flights()) {
  // A set, so that the order does not depend on the order of the programs.
  std::set<std::pair<uint32_t, plan::Stream>> used;
  for (const auto &program : plan.programs)
    for (const auto &instruction : program->instructions)
      if (const plan::TransferT *start = transferOf(*instruction))
        used.emplace(start->group, start->stream);
  for (const auto &key : used) {
    const plan::GroupT &group = *plan.groups[key.first];
    communicators[key] =
        std::make_unique<CountedCommunicator>(fabric.createCommunicator(
            {group.name + "/" + plan::EnumNameStream(key.second),
             groupRanks(group, fabric.rank()), key.second}));
  }
}

Communicator &Transfers::get(uint32_t group, plan::Stream stream) const {
  return *communicators.at({group, stream});
}

size_t Transfers::stagingBytes() const {
  size_t bytes = 0;
  for (const auto &entry : communicators)
    bytes += entry.second->stagingBytes();
  return bytes;
}

std::map<std::pair<std::string, std::string_view>, Traffic>
Transfers::traffic() const {
  std::map<std::pair<std::string, std::string_view>, Traffic> sums;
  for (const auto &[key, communicator] : communicators)
    for (const auto &[kind, traffic] : communicator->traffic()) {
      Traffic &sum = sums[{plan.groups[key.first]->name, kind}];
      sum.calls += traffic.calls;
      sum.bytes += traffic.bytes;
    }
  return sums;
}

double Transfers::secondsWaited() const {
  double seconds = 0;
  for (const auto &[key, communicator] : communicators)
    seconds += communicator->waited().count();
  return seconds;
}

void Transfers::resetTraffic() {
  for (const auto &entry : communicators)
    entry.second->reset();
}

Transfers::Counts Transfers::counts() const {
  Counts counts;
  for (const auto &entry : communicators)
    counts.push_back(entry.second->traffic());
  return counts;
}

void Transfers::setCounts(const Counts &counts) const {
  size_t next = 0;
  for (const auto &entry : communicators)
    entry.second->set(counts[next++]);
}

void Transfers::addCounts(const Counts &counts) const {
  size_t next = 0;
  for (const auto &entry : communicators) {
    auto sums = entry.second->traffic();
    for (const auto &[kind, traffic] : counts[next++]) {
      sums[kind].calls += traffic.calls;
      sums[kind].bytes += traffic.bytes;
    }
    entry.second->set(std::move(sums));
  }
}

Transfers::Counts Transfers::difference(const Counts &after,
                                        const Counts &before) {
  Counts result = after;
  for (size_t i = 0; i < result.size(); ++i)
    for (auto &[kind, traffic] : result[i])
      if (auto found = before[i].find(kind); found != before[i].end()) {
        traffic.calls -= found->second.calls;
        traffic.bytes -= found->second.bytes;
      }
  return result;
}

Transfers::Captured Transfers::keepCaptured() const {
  Captured graph;
  for (const auto &entry : communicators)
    graph.push_back(entry.second->keepCaptured());
  return graph;
}

void Transfers::launchCaptured(const Captured &graph, uint64_t step) const {
  size_t next = 0;
  for (const auto &entry : communicators)
    entry.second->launchCaptured(graph[next++], step);
}

void Transfers::abandon() const {
  for (const auto &entry : communicators)
    entry.second->abandon();
}
