//===- Round.cpp - Which processes make up this start of a run ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every process says that it is here, by a name of its own. Rank 0 invites
// those who are here to a round; who is invited accepts. A process of an
// earlier start does not; once the one that took its place is here, rank 0
// invites to another round. One that all have accepted is complete.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/processes/Round.h"
#include "runtime/comm/Label.h"
#include "support/Error.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace fsdp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How soon rank 0 learns that another process took a rank's place.
static constexpr milliseconds kSlice(200);
static constexpr milliseconds kLongestRoundPause(50);

namespace {

class Lobby {
public:
  Lobby(Store &store, int rank, int worldSize, milliseconds deadline)
      : store(store), rank(rank), worldSize(worldSize), deadline(deadline),
        end(Clock::now() + deadline), self(nameProcess()) {}

  std::string lead();
  std::string follow();

private:
  static std::string nameProcess();
  static std::string here(int rank) { return "here/" + std::to_string(rank); }
  static std::string accepted(const std::string &round, int rank) {
    return "accepted/" + round + "/" + std::to_string(rank);
  }
  static std::string complete(const std::string &round) {
    return "complete/" + round;
  }

  std::vector<std::string> waitForAll();
  bool isAcceptedByAll(const std::string &round,
                       const std::vector<std::string> &processes);
  [[noreturn]] void refuse(const std::string &round);

  Store &store;
  const int rank, worldSize;
  const milliseconds deadline;
  const Clock::time_point end;
  const std::string self;
};

} // namespace

std::string Lobby::nameProcess() {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::string(host) + "." + std::to_string(getpid()) + "." +
         std::to_string(std::chrono::nanoseconds(now).count());
}

/// `round` is empty for a process that was not invited.
void Lobby::refuse(const std::string &round) {
  std::vector<int> missing;
  for (int other = 0; other < worldSize; ++other)
    if (!store.tryGet(here(other)))
      missing.push_back(other);
  if (missing.empty() && !round.empty())
    for (int other = 1; other < worldSize; ++other)
      if (!store.tryGet(accepted(round, other)))
        missing.push_back(other);
  // All have come, as far as anybody but rank 0 can tell.
  if (missing.empty())
    missing.push_back(0);
  throw Error(ErrorId::RankMissing,
              "rank " + std::to_string(rank) + ": joining the run: expected " +
                  describeRanks(missing) + " to come within " +
                  describe(deadline) + ", but did not");
}

std::vector<std::string> Lobby::waitForAll() {
  std::vector<std::string> processes;
  for (int other = 0; other < worldSize; ++other) {
    std::optional<std::string> process = store.wait(here(other), end);
    if (!process)
      refuse("");
    processes.push_back(*process);
  }
  return processes;
}

bool Lobby::isAcceptedByAll(const std::string &round,
                            const std::vector<std::string> &processes) {
  for (int other = 1; other < worldSize; ++other)
    while (!store.wait(accepted(round, other),
                       std::min(end, Clock::now() + kSlice))) {
      for (int each = 1; each < worldSize; ++each)
        if (store.tryGet(here(each)) != processes[each])
          return false;
      if (Clock::now() >= end)
        refuse(round);
    }
  return true;
}

std::string Lobby::lead() {
  store.set(here(0), self);
  for (int attempt = 0;; ++attempt) {
    std::vector<std::string> processes = waitForAll();
    std::string round = self + "." + std::to_string(attempt);
    for (int other = 1; other < worldSize; ++other)
      store.set("invited/" + processes[other], round);
    if (isAcceptedByAll(round, processes)) {
      store.set(complete(round), "");
      return round;
    }
  }
}

std::string Lobby::follow() {
  store.set(here(rank), self);
  std::string round;
  for (milliseconds pause(1);;
       pause = std::min(2 * pause, kLongestRoundPause)) {
    std::optional<std::string> invited = store.tryGet("invited/" + self);
    if (invited && *invited != round) {
      round = *invited;
      store.set(accepted(round, rank), "");
      pause = milliseconds(1);
    }
    if (!round.empty() && store.tryGet(complete(round)))
      return round;
    if (Clock::now() >= end)
      refuse(round);
    std::this_thread::sleep_for(pause);
  }
}

std::string fsdp::agreeOnRound(Store &store, int rank, int worldSize,
                               milliseconds deadline) {
  Lobby lobby(store, rank, worldSize, deadline);
  return rank == 0 ? lobby.lead() : lobby.follow();
}
