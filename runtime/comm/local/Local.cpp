//===- Local.cpp - Ranks that are threads of one process ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/local/Local.h"
#include "runtime/comm/Label.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/StopRound.h"
#include "runtime/comm/local/Transfer.h"
#include "support/Error.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

using namespace fsdp;
using Clock = std::chrono::steady_clock;

namespace {

/// What the ranks of one group and stream share.
struct Group {
  std::map<uint64_t, std::shared_ptr<LocalTransfer>> transfers; ///< by ticket
};

struct Exchange {
  std::map<int, std::string> values;
  int taken = 0;
};

/// What all ranks share. `mutex` guards all of it; the transfers' tasks are
/// done outside of it.
struct Hub {
  Hub(int worldSize, std::chrono::milliseconds deadline)
      : worldSize(worldSize), deadline(deadline) {}

  const int worldSize;
  const std::chrono::milliseconds deadline;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<Group>> groups;
  std::map<std::string, Exchange> exchanges;
  std::map<std::string, std::weak_ptr<void>> shared;
  std::optional<std::string> failure;
  /// Set after `failure`: lets a spinning rank see it without the mutex.
  std::atomic<bool> failed{false};
  StopRound stop;

  /// Blocks until `ready()`. Throws if a rank failed, or at the deadline, when
  /// `late()` says what was expected.
  template <typename Ready, typename Late>
  void await(std::unique_lock<std::mutex> &lock, const std::string &what,
             Ready ready, Late late) {
    bool came = changed.wait_until(lock, Clock::now() + deadline,
                                   [&] { return failure || ready(); });
    if (ready())
      return;
    if (came)
      throw Error(ErrorId::PeerFailed, what + ": " + *failure);
    std::string message = what + ": " + late() + " within " +
                          describe(deadline) + ", but did not";
    fail(message);
    throw Error(ErrorId::DeadlinePassed, message);
  }

  /// The first failure is the root cause. The caller holds the mutex.
  void fail(const std::string &reason) {
    if (!failure)
      failure = reason;
    failed.store(true, std::memory_order_release);
    changed.notify_all();
  }
};

class LocalCommunicator final : public Communicator {
public:
  /// `key` names the group, the stream and which of their communicators it is.
  LocalCommunicator(std::shared_ptr<Hub> hub, const std::string &key,
                    const GroupRanks &ranks, int rank)
      : hub(std::move(hub)), ranks(ranks.ranks), globalRank(rank),
        place(static_cast<int>(std::ranges::find(ranks.ranks, rank) -
                               ranks.ranks.begin())) {
    std::lock_guard lock(this->hub->mutex);
    std::shared_ptr<Group> &shared = this->hub->groups[key];
    if (!shared)
      shared = std::make_shared<Group>();
    group = shared;
  }
  ~LocalCommunicator() override;

  int rank() const override { return place; }
  int size() const override { return static_cast<int>(ranks.size()); }

  Ticket start(const Transfer &transfer) override;
  void wait(Ticket ticket) override;

private:
  struct Started {
    std::shared_ptr<LocalTransfer> transfer;
    TransferLabel label;
  };

  /// Blocks until `ready`, first spinning for a moment.
  template <typename Ready>
  void await(const Started &started, Ready ready);
  std::vector<int> global(std::vector<int> places) const {
    for (int &each : places)
      each = ranks[each];
    return places;
  }

  std::shared_ptr<Hub> hub;
  std::shared_ptr<Group> group;
  const std::vector<int> ranks;
  const int globalRank;
  const int place;
  Ticket next = 0;
  std::unordered_map<Ticket, Started> inFlight;
};

/// How often each group and stream was asked for. Keys are the same on all
/// ranks of the group that call in the same order.
class Counts {
public:
  std::string nextKey(const GroupRanks &group) {
    std::string key = group.name;
    for (int rank : group.ranks)
      key += ',' + std::to_string(rank);
    return key + '#' + std::to_string(counts[key]++);
  }

private:
  std::map<std::string, int> counts;
};

class LocalMeeting final : public Meeting {
public:
  LocalMeeting(std::shared_ptr<Hub> hub, int rank)
      : hub(std::move(hub)), place(rank) {}

  int rank() const override { return place; }
  int worldSize() const override { return hub->worldSize; }

  std::shared_ptr<void>
  share(const GroupRanks &group,
        const std::function<std::shared_ptr<void>()> &make) override {
    std::string key = shared.nextKey(group);
    std::lock_guard lock(hub->mutex);
    std::weak_ptr<void> &object = hub->shared[key];
    std::shared_ptr<void> held = object.lock();
    if (!held)
      object = held = make();
    return held;
  }

  std::vector<std::string> exchange(const std::string &key,
                                    const std::string &value) override;

  void requestStop(uint64_t rounds) override {
    // The others may be in the next round, and cannot end it before this rank
    // begins it.
    hub->stop.set(worldSize() == 1 ? rounds : rounds + 1);
  }
  std::optional<uint64_t> stopAfter() const noexcept override {
    return hub->stop.get();
  }

  void abort(const std::string &reason) noexcept override {
    std::lock_guard lock(hub->mutex);
    hub->fail("rank " + std::to_string(place) + " failed: " + reason);
  }

private:
  std::shared_ptr<Hub> hub;
  const int place;
  Counts shared; ///< objects
};

class LocalFabric final : public Fabric {
public:
  LocalFabric(std::shared_ptr<Hub> hub, int rank)
      : Fabric(std::make_shared<LocalMeeting>(hub, rank)), hub(std::move(hub)) {
  }

  std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) override {
    return std::make_unique<LocalCommunicator>(hub, created.nextKey(group),
                                               group, rank());
  }

private:
  std::shared_ptr<Hub> hub;
  Counts created; ///< communicators
};

} // namespace

Communicator::Ticket LocalCommunicator::start(const Transfer &started) {
  checkReductions(started);
  Ticket ticket = next++;
  std::lock_guard lock(hub->mutex);
  std::shared_ptr<LocalTransfer> &transfer = group->transfers[ticket];
  if (!transfer)
    transfer = std::make_shared<LocalTransfer>(size(), started.kind(),
                                               started.combination);
  inFlight[ticket] = {transfer, started.label};
  try {
    if (transfer->publish(place, started)) {
      transfer->open();
      hub->changed.notify_all();
    }
  } catch (const Error &error) {
    std::string message =
        describe(globalRank, started.label) + ": " + error.what();
    hub->fail(message);
    throw Error(error.id(), message);
  }
  return ticket;
}

template <typename Ready>
void LocalCommunicator::await(const Started &started, Ready ready) {
  // Peers usually come within microseconds: sleeping would take longer.
  for (int i = 0; i < 200; ++i) {
    if (ready())
      return;
    if (hub->failed.load(std::memory_order_acquire))
      break;
    std::this_thread::yield();
  }
  std::unique_lock lock(hub->mutex);
  hub->await(lock, describe(globalRank, started.label), ready, [&] {
    std::vector<int> missing = global(started.transfer->missing());
    return missing.empty()
               ? std::string("expected the peers to finish their part")
               : "expected " + describeRanks(missing) + " to start it";
  });
}

void LocalCommunicator::wait(Ticket ticket) {
  auto found = inFlight.find(ticket);
  if (found == inFlight.end())
    throw std::logic_error("no transfer with this ticket is in flight");
  const Started &started = found->second;
  LocalTransfer &transfer = *started.transfer;
  await(started, [&] { return transfer.isOpen(); });
  if (transfer.work(place)) {
    // The empty section orders this after a peer's check and before its sleep.
    {
      std::lock_guard lock(hub->mutex);
    }
    hub->changed.notify_all();
  }
  await(started, [&] { return transfer.isDone(); });
  std::lock_guard lock(hub->mutex);
  if (++transfer.waited == size())
    group->transfers.erase(ticket);
  inFlight.erase(found);
}

LocalCommunicator::~LocalCommunicator() {
  if (inFlight.empty())
    return;
  {
    std::lock_guard lock(hub->mutex);
    hub->fail(describe(globalRank, inFlight.begin()->second.label) +
              ": ended before it was complete");
  }
  for (auto &[ticket, started] : inFlight)
    started.transfer->cancel();
}

std::vector<std::string> LocalMeeting::exchange(const std::string &key,
                                                const std::string &value) {
  std::unique_lock lock(hub->mutex);
  Exchange &exchange = hub->exchanges[key];
  exchange.values[place] = value;
  hub->changed.notify_all();
  hub->await(
      lock, "rank " + std::to_string(place) + ": exchange of '" + key + "'",
      [&] { return static_cast<int>(exchange.values.size()) == worldSize(); },
      [&] {
        std::vector<int> missing;
        for (int rank = 0; rank < worldSize(); ++rank)
          if (!exchange.values.contains(rank))
            missing.push_back(rank);
        return "expected " + describeRanks(missing) + " to come";
      });
  std::vector<std::string> values;
  for (auto &[rank, each] : exchange.values)
    values.push_back(each);
  if (++exchange.taken == worldSize())
    hub->exchanges.erase(key);
  return values;
}

std::vector<std::unique_ptr<Fabric>>
fsdp::makeLocalFabrics(int worldSize, std::chrono::milliseconds deadline) {
  auto hub = std::make_shared<Hub>(worldSize, deadline);
  std::vector<std::unique_ptr<Fabric>> fabrics;
  for (int rank = 0; rank < worldSize; ++rank)
    fabrics.push_back(std::make_unique<LocalFabric>(hub, rank));
  return fabrics;
}
