//===- MeetingStore.cpp - A store in which a library's ranks meet ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/gloo/MeetingStore.h"
#include "runtime/comm/Label.h"

#include <algorithm>
#include <thread>

using namespace fsdp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

static constexpr milliseconds kLongestPause(50);

MeetingStore::MeetingStore(std::shared_ptr<Peers> peers,
                           c10::intrusive_ptr<c10d::Store> base)
    : PrefixStore("meeting", std::move(base)), peers(std::move(peers)) {}

std::vector<uint8_t> MeetingStore::get(const std::string &key) {
  wait({key});
  return PrefixStore::get(key);
}

void MeetingStore::wait(const std::vector<std::string> &keys,
                        const milliseconds &) {
  wait(keys);
}

void MeetingStore::wait(const std::vector<std::string> &keys) {
  auto end = Clock::now() + peers->deadline();
  for (milliseconds pause(1); !check(keys);
       pause = std::min(2 * pause, kLongestPause)) {
    if (std::optional<std::string> reason = peers->failure())
      throw Error(ErrorId::PeerFailed, *reason);
    if (Clock::now() >= end)
      throw Error(ErrorId::DeadlinePassed,
                  "no address of its within " + describe(peers->deadline()));
    std::this_thread::sleep_for(pause);
  }
}
