//===- Peers.cpp - The other ranks, beside the transfers ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Peers.h"
#include "runtime/comm/StopRound.h"

#include <numeric>

using namespace fsdp;

static std::vector<int> allRanks(const Peers &peers) {
  std::vector<int> all(peers.worldSize());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::string> Peers::exchange(const std::string &key,
                                         const std::string &value) {
  return gather("exchange/" + key + '/', value, allRanks(*this),
                ErrorId::DeadlinePassed, "exchange of '" + key + "'");
}

void Peers::requestStop(uint64_t rounds) {
  if (worldSize() == 1)
    return publishStop(rounds);
  // The others may be in the next round, and cannot end it before this rank
  // begins it; what listens in them for such requests hears of it meanwhile.
  publishStop(rounds + 1);
  gather(kStopHeard, "", allRanks(*this), ErrorId::DeadlinePassed,
         "agreeing on the step to stop after");
}

void Peers::abort(const std::string &reason) noexcept {
  publish("rank " + std::to_string(rank()) + " failed: " + reason);
}

std::shared_ptr<void> Peers::onFailure(std::function<void()> call) {
  int handle = add(std::move(call));
  return {nullptr, [this, handle](void *) { remove(handle); }};
}

std::string Peers::nextKey(const GroupRanks &group) {
  std::string key = "group/" + group.name;
  for (int member : group.ranks)
    key += ',' + std::to_string(member);
  return key + '#' + std::to_string(keys[key]++) + '/';
}
