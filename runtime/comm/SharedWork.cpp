//===- SharedWork.cpp - Work that fails on all ranks or on none -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/SharedWork.h"

#include "runtime/comm/Communicator.h"

using namespace fsdp;

std::vector<std::string> fsdp::shareWork(
    Fabric &fabric, const std::string &key,
    const std::function<std::string()> &work,
    const std::function<void(size_t rank, const std::string &message)> &fail) {
  constexpr char kDone = '+', kFailed = '-';
  std::string mine;
  try {
    mine = kDone + work();
  } catch (const std::exception &error) {
    mine = kFailed + std::string(error.what());
  }
  std::vector<std::string> all = fabric.exchange(key, mine);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].front() == kFailed)
      fail(rank, all[rank].substr(1));
  for (std::string &each : all)
    each.erase(0, 1);
  return all;
}
