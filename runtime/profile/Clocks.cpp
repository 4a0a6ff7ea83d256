//===- Clocks.cpp - The times of several hosts on one clock ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/profile/Clocks.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include <unistd.h>

using namespace fsdp;

std::string fsdp::describeClock() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  // Clones of a machine have one boot, and clocks of their own.
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  std::error_code failure;
  return boot + " " + host + " " +
         std::filesystem::read_symlink("/proc/self/ns/time", failure).string();
}

ClockOffset fsdp::measureClock(Communicator &communicator, int rounds,
                               const std::function<int64_t()> &now) {
  /// What a rank sends: when it did, and when the round before was over.
  struct Times {
    int64_t sent, received;
  };
  std::vector<Times> all(static_cast<size_t>(communicator.size()));
  const Times &first = all[0];
  Times mine{0, 0};
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  int64_t sentBefore = 0;
  for (int round = 0; round <= rounds; ++round) {
    mine.sent = now();
    Member member{&mine, all.data(), sizeof(Times)};
    communicator.wait(communicator.start(
        {{CollectiveKind::all_gather, "clock", static_cast<uint64_t>(round)},
         {&member, 1}}));
    int64_t received = now();
    // The first rank sent this round's before this rank had it, and had the
    // last round's after this rank sent it.
    least = std::max(least, first.sent - received);
    if (round > 0)
      most = std::min(most, first.received - sentBefore);
    sentBefore = mine.sent;
    mine.received = received;
  }
  if (communicator.rank() == 0)
    return {};
  int64_t width = most - least;
  return {least + width / 2, width - width / 2};
}
