//===- Processes.cpp - What ranks that are processes share ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/processes/Processes.h"
#include "runtime/comm/Label.h"
#include "runtime/comm/processes/Rendezvous.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <thread>

#include <unistd.h>

using namespace fsdp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Ranks come to where they wait for one that is missing within so much.
static constexpr milliseconds kOthersTime(1000);

Processes::Processes(const FabricOptions &options, int rank,
                     std::unique_ptr<Store> connected, bool loopback)
    : place(rank), world(options.worldSize), patience(options.deadline),
      loopback(loopback), isCancelled(options.isCancelled),
      store(std::move(connected)),
      watch(std::make_unique<Watch>(*store, rank)) {}

Processes::~Processes() {
  bool failed = watch->failure().has_value();
  watch.reset();
  try {
    store->set("bye/" + std::to_string(place), "");
    if (!store->isServedHere())
      return;
    // The store ends with this process: let the others leave first.
    auto end = Clock::now() + std::chrono::seconds(failed ? 2 : 10);
    for (int other = 0; other < world; ++other)
      store->wait("bye/" + std::to_string(other), end);
  } catch (const Error &) {
    // Whoever served the store left first: nobody is waiting for this rank.
  }
}

std::shared_ptr<Processes> Processes::connect(const FabricOptions &options) {
  std::optional<LauncherInfo> launcher = readLauncher();
  if (!launcher)
    throw Error(ErrorId::RendezvousInvalid,
                "expected RANK and WORLD_SIZE in the environment, found "
                "neither; launch with torchrun --no-python, srun or mpirun, or "
                "take --backend=local, whose ranks share one process");
  if (launcher->worldSize != options.worldSize)
    throw Error(
        ErrorId::WorldSizeMismatch,
        "expected " + std::to_string(options.worldSize) +
            " ranks, which the artifact was compiled for, found " +
            std::to_string(launcher->worldSize) + " from " +
            launcher->launcher + "; launch " +
            std::to_string(options.worldSize) +
            " or compile with --world=" + std::to_string(launcher->worldSize));
  int rank = launcher->rank;
  Rendezvous where = parseRendezvous(options.rendezvous);
  std::unique_ptr<Store> store = connectStore(where, rank, options.worldSize,
                                              options.deadline, options.note);
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  std::string self = "process " + std::to_string(getpid()) + " on " + host;
  std::string holder = store->setFirst("rank/" + std::to_string(rank), self);
  if (holder != self)
    throw Error(ErrorId::RendezvousInvalid,
                "expected one process for each rank, found that " + self +
                    " and " + holder + " both are rank " +
                    std::to_string(rank) +
                    "; give each its own RANK and each run its own address");
  std::shared_ptr<Processes> processes(
      new Processes(options, rank, std::move(store), where.isLoopback()));
  std::vector<int> all(options.worldSize);
  std::iota(all.begin(), all.end(), 0);
  processes->gather("join/", "", all, ErrorId::RankMissing, "joining the run");
  return processes;
}

std::vector<std::string> Processes::gather(const std::string &key,
                                           const std::string &value,
                                           const std::vector<int> &ranks,
                                           ErrorId late,
                                           const std::string &what) {
  std::string self = "rank " + std::to_string(place) + ": " + what;
  store->set(key + std::to_string(place), value);
  auto end = Clock::now() + patience;
  std::vector<std::string> values;
  std::vector<int> missing;
  for (int other : ranks) {
    std::optional<std::string> found;
    // In slices, to learn of failures meanwhile.
    do {
      found = store->wait(key + std::to_string(other),
                          std::min(end, Clock::now() + milliseconds(200)));
      if (!found)
        if (std::optional<std::string> reason = watch->failure())
          throw Error(ErrorId::PeerFailed, self + ": " + *reason);
      if (!found && isCancelled && isCancelled()) {
        abort("it was ended by a signal while ranks started up");
        throw Error(ErrorId::PeerFailed, self + ": ended by a signal");
      }
    } while (!found && Clock::now() < end);
    if (found)
      values.push_back(*found);
    else
      missing.push_back(other);
  }
  if (missing.empty())
    return values;
  // Of several, some may only be waiting for the others elsewhere: what they
  // say at their own deadlines is the cause.
  if (missing.size() > 1)
    for (auto last = Clock::now() + kOthersTime; Clock::now() < last;) {
      if (std::optional<std::string> reason = watch->failure())
        throw Error(ErrorId::PeerFailed, self + ": " + *reason);
      std::this_thread::sleep_for(milliseconds(50));
    }
  std::string message = self + ": expected " + describeRanks(missing) +
                        " to come within " + describe(patience) +
                        ", but did not";
  watch->publish(message);
  throw Error(late, message);
}

std::vector<std::optional<std::string>>
Processes::survey(const std::string &key, const std::string &value,
                  const std::vector<int> &ranks,
                  std::chrono::milliseconds time) noexcept {
  std::vector<std::optional<std::string>> values(ranks.size());
  try {
    store->set(key + std::to_string(place), value);
    auto end = Clock::now() + time;
    for (size_t i = 0; i < ranks.size(); ++i)
      values[i] = store->wait(key + std::to_string(ranks[i]), end);
  } catch (const Error &) {
    // The store is gone, and with it what the others left.
  }
  return values;
}
