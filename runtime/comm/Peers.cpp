//===- Peers.cpp - The other ranks, beside the transfers ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Peers.h"

#include <numeric>

using namespace fsdp;

std::vector<std::string> Peers::exchange(const std::string &key,
                                         const std::string &value) {
  std::vector<int> all(worldSize());
  std::iota(all.begin(), all.end(), 0);
  return gather("exchange/" + key + '/', value, all, ErrorId::DeadlinePassed,
                "exchange of '" + key + "'");
}

void Peers::publishFailure(const std::string &reason) noexcept {
  publish("rank " + std::to_string(rank()) + " failed: " + reason);
}

std::string Peers::nextKey(const GroupRanks &group) {
  std::string key = "group/" + group.name;
  for (int member : group.ranks)
    key += ',' + std::to_string(member);
  return key + '#' + std::to_string(keys[key]++) + '/';
}
