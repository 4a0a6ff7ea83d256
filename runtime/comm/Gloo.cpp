//===- Gloo.cpp - Ranks that are processes, over TCP ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#define USE_C10D_GLOO 1

#include "runtime/comm/Gloo.h"
#include "runtime/comm/GlooTransfer.h"
#include "runtime/comm/Label.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/Rendezvous.h"
#include "runtime/comm/Staging.h"
#include "runtime/comm/Watch.h"
#include "runtime/support/Error.h"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <sched.h>
#include <unistd.h>
#include <unordered_map>

using namespace fsdp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

/// What a rank's communicators share; the last of them ends it.
struct Session {
  Session(const FabricOptions &options, int rank, std::unique_ptr<Store> store,
          bool loopback)
      : rank(rank), worldSize(options.worldSize), deadline(options.deadline),
        loopback(loopback), store(std::move(store)),
        watch(std::make_unique<Watch>(this->store->clone(), rank)) {
    if (sched_getaffinity(/*pid=*/0, sizeof(processors), &processors) != 0)
      CPU_ZERO(&processors);
  }
  ~Session();

  /// The values that `ranks` set below `key`, by place in `ranks`.
  std::vector<std::string> gather(const std::string &key,
                                  const std::string &value,
                                  const std::vector<int> &ranks, ErrorId late,
                                  const std::string &what);

  const int rank;
  const int worldSize;
  const milliseconds deadline;
  const bool loopback;
  std::unique_ptr<Store> store;
  std::unique_ptr<Watch> watch;
  /// That the process may run on, before a rank pins its thread; none: unknown.
  cpu_set_t processors;
};

/// Lets threads that are created while it lives run on all of the process's
/// processors: those that move messages are not to share a rank's own.
class Unpinned {
public:
  explicit Unpinned(const cpu_set_t &processors) {
    isActive =
        CPU_COUNT(&processors) != 0 &&
        sched_getaffinity(/*pid=*/0, sizeof(before), &before) == 0 &&
        sched_setaffinity(/*pid=*/0, sizeof(processors), &processors) == 0;
  }
  ~Unpinned() {
    if (isActive)
      sched_setaffinity(/*pid=*/0, sizeof(before), &before);
  }
  Unpinned(const Unpinned &) = delete;
  Unpinned &operator=(const Unpinned &) = delete;

private:
  cpu_set_t before;
  bool isActive;
};

class GlooCommunicator final : public Communicator {
public:
  GlooCommunicator(std::shared_ptr<Session> session, const GroupRanks &group,
                   const std::string &key);
  ~GlooCommunicator() override;

  int rank() const override { return place; }
  int size() const override { return static_cast<int>(ranks.size()); }

  Ticket startAllGather(std::span<const GatherMember> members,
                        const TransferLabel &label) override {
    return start(label, [&](const GlooTransfer::Allocate &allocate) {
      return GlooTransfer::allGather(members, place, size(), allocate);
    });
  }

  Ticket startReduceScatter(std::span<const ReduceMember> members,
                            Combination combination,
                            const TransferLabel &label) override {
    for (const ReduceMember &member : members)
      checkReduction(member.dtype, combination.reduction);
    return start(label, [&](const GlooTransfer::Allocate &allocate) {
      return GlooTransfer::reduceScatter(members, combination, place, size(),
                                         allocate);
    });
  }

  Ticket startAllReduce(std::span<const AllReduceMember> members,
                        Combination combination,
                        const TransferLabel &label) override {
    for (const AllReduceMember &member : members)
      checkReduction(member.dtype, combination.reduction);
    return start(label, [&](const GlooTransfer::Allocate &allocate) {
      return GlooTransfer::allReduce(members, combination, place, size(),
                                     allocate);
    });
  }

  void wait(Ticket ticket) override;

  size_t stagingBytes() const override { return staging.totalBytes(); }

private:
  struct Pending {
    int peer; ///< place in the group
    c10::intrusive_ptr<c10d::Work> work;
  };
  struct InFlight {
    TransferLabel label;
    GlooTransfer transfer;
    std::vector<Staging::Block> blocks;
    std::vector<Pending> pending;
  };

  template <typename Make>
  Ticket start(const TransferLabel &label, Make make);
  void post(InFlight &flight);
  /// Turns a failed message from or to `peer` into an error of ours.
  [[noreturn]] void fail(const TransferLabel &label, int peer, bool late,
                         const std::string &detail);
  void interrupt();

  std::shared_ptr<Session> session;
  const std::vector<int> ranks;
  const int place;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  Staging staging;
  Ticket next = 0;
  int tag = 0;
  /// Guards `inFlight` and `interrupted`, which the watch's thread uses.
  std::mutex mutex;
  std::unordered_map<Ticket, InFlight> inFlight;
  bool interrupted = false;
  int watchHandle = 0;
};

class GlooFabric final : public Fabric {
public:
  explicit GlooFabric(std::shared_ptr<Session> session)
      : session(std::move(session)) {}

  int rank() const override { return session->rank; }
  int worldSize() const override { return session->worldSize; }

  std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) override {
    std::string key = "group/" + group.name;
    for (int rank : group.ranks)
      key += ',' + std::to_string(rank);
    key += '#' + std::to_string(created[key]++) + '/';
    return std::make_unique<GlooCommunicator>(session, group, key);
  }

  std::vector<std::string> exchange(const std::string &key,
                                    const std::string &value) override {
    return session->gather("exchange/" + key + '/', value, allRanks(),
                           ErrorId::DeadlinePassed,
                           "exchange of '" + key + "'");
  }

  void requestStop(uint64_t rounds) override {
    if (worldSize() == 1)
      return session->watch->publishStop(rounds);
    // The others may be in the next round, and cannot end it before this rank
    // begins it; their watching threads hear of it meanwhile.
    session->watch->publishStop(rounds + 1);
    session->gather(Watch::kStopHeard, "", allRanks(), ErrorId::DeadlinePassed,
                    "agreeing on the step to stop after");
  }
  std::optional<uint64_t> stopAfter() const noexcept override {
    return session->watch->stopAfter();
  }

  void abort(const std::string &reason) noexcept override {
    session->watch->publish("rank " + std::to_string(rank()) +
                            " failed: " + reason);
  }

private:
  std::vector<int> allRanks() const {
    std::vector<int> all(worldSize());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  std::shared_ptr<Session> session;
  std::map<std::string, int> created; ///< communicators, by group and stream
};

} // namespace

/// LibTorch's messages carry a stack trace behind the first line.
static std::string firstLine(const std::exception &error) {
  std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

Session::~Session() {
  bool failed = watch->failure().has_value();
  watch.reset();
  try {
    store->set("bye/" + std::to_string(rank), "");
    if (!store->isServedHere())
      return;
    // The store ends with this process: let the others leave first.
    auto end = Clock::now() + std::chrono::seconds(failed ? 2 : 10);
    for (int other = 0; other < worldSize; ++other)
      store->wait("bye/" + std::to_string(other), end);
  } catch (const Error &) {
    // Whoever served the store left first: nobody is waiting for this rank.
  }
}

std::vector<std::string> Session::gather(const std::string &key,
                                         const std::string &value,
                                         const std::vector<int> &ranks,
                                         ErrorId late,
                                         const std::string &what) {
  std::string self = "rank " + std::to_string(rank) + ": " + what;
  store->set(key + std::to_string(rank), value);
  auto end = Clock::now() + deadline;
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
    } while (!found && Clock::now() < end);
    if (found)
      values.push_back(*found);
    else
      missing.push_back(other);
  }
  if (missing.empty())
    return values;
  std::string message = self + ": expected " + describeRanks(missing) +
                        " to come within " + describe(deadline) +
                        ", but did not";
  watch->publish(message);
  throw Error(late, message);
}

GlooCommunicator::GlooCommunicator(std::shared_ptr<Session> shared,
                                   const GroupRanks &group,
                                   const std::string &key)
    : session(std::move(shared)), ranks(group.ranks),
      place(static_cast<int>(std::ranges::find(ranks, session->rank) -
                             ranks.begin())) {
  // Whoever is missing is found out here, where it has a name.
  session->gather(key + "come/", "", ranks, ErrorId::DeadlinePassed,
                  "connecting group '" + group.name + "'");
  try {
    Unpinned unpinned(session->processors);
    auto options = c10d::ProcessGroupGloo::Options::create(session->deadline);
    // Messages are moved by the device's own thread; this one stays idle.
    options->threads = 1;
    const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
    options->devices.push_back(
        session->loopback
            ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
        : interface && *interface ? c10d::ProcessGroupGloo::
                                        createDeviceForInterface(interface)
                                  : c10d::ProcessGroupGloo::
                                        createDefaultDevice());
    this->group = c10::make_intrusive<c10d::ProcessGroupGloo>(
        session->store->under(key), place, size(), options);
  } catch (const std::exception &error) {
    std::string self = "rank " + std::to_string(session->rank) + ": ";
    // A peer that connected, failed and went, before the others had connected.
    if (std::optional<std::string> reason = session->watch->failure())
      throw Error(ErrorId::PeerFailed, self + *reason);
    std::string message = self +
                          "expected to connect to the other ranks of "
                          "group '" +
                          group.name + "', found: " + firstLine(error);
    session->watch->publish(message);
    throw Error(ErrorId::PeerFailed, message);
  }
  watchHandle = session->watch->add([this] { interrupt(); });
}

GlooCommunicator::~GlooCommunicator() {
  session->watch->remove(watchHandle);
  if (!inFlight.empty())
    session->watch->publish(
        describe(session->rank, inFlight.begin()->second.label) +
        ": ended before it was complete");
  interrupt();
  inFlight.clear();
  group.reset();
}

void GlooCommunicator::interrupt() {
  std::lock_guard lock(mutex);
  interrupted = true;
  for (auto &[ticket, flight] : inFlight)
    for (Pending &pending : flight.pending)
      pending.work->abort();
}

template <typename Make>
Communicator::Ticket GlooCommunicator::start(const TransferLabel &label,
                                             Make make) {
  InFlight flight;
  flight.label = label;
  flight.transfer = make([&](size_t bytes) {
    flight.blocks.push_back(staging.take(bytes));
    return flight.blocks.back().data();
  });
  post(flight);
  std::lock_guard lock(mutex);
  if (interrupted)
    for (Pending &pending : flight.pending)
      pending.work->abort();
  inFlight.emplace(next, std::move(flight));
  return next++;
}

void GlooCommunicator::post(InFlight &flight) {
  auto wrap = [](const std::byte *data, size_t bytes) {
    return std::vector<at::Tensor>{at::from_blob(const_cast<std::byte *>(data),
                                                 {static_cast<int64_t>(bytes)},
                                                 at::kByte)};
  };
  int peer = place;
  try {
    // Receivers first: data that comes finds its place. Every rank starts with
    // its right neighbour, so that nobody is everybody's first.
    for (bool sends : {false, true})
      for (int step = 1; step < size(); ++step) {
        peer = (place + (sends ? step : size() - step)) % size();
        int each = tag;
        for (const GlooMessage &message : flight.transfer.messages) {
          auto tensors = sends ? wrap(message.send + peer * message.sendStride,
                                      message.bytes)
                               : wrap(message.from(peer, place), message.bytes);
          flight.pending.push_back(
              {peer, sends ? group->send(tensors, peer, each)
                           : group->recv(tensors, peer, each)});
          each = (each + 1) & 0x3FFFFFFF;
        }
      }
  } catch (const std::exception &error) {
    fail(flight.label, peer, false, firstLine(error));
  }
  tag = static_cast<int>((tag + flight.transfer.messages.size()) & 0x3FFFFFFF);
}

void GlooCommunicator::fail(const TransferLabel &label, int peer, bool late,
                            const std::string &detail) {
  std::string self = describe(session->rank, label);
  // A peer that failed said so before it went: its reason is the cause, what
  // the connection says only a consequence.
  if (std::optional<std::string> reason = session->watch->failure())
    throw Error(ErrorId::PeerFailed, self + ": " + *reason);
  std::string other = "rank " + std::to_string(ranks[peer]);
  if (late) {
    std::string message = self + ": expected " + other +
                          " to take part within " +
                          describe(session->deadline) + ", but did not";
    session->watch->publish(message);
    throw Error(ErrorId::DeadlinePassed, message);
  }
  std::string message =
      self + ": lost the connection to " + other + " (" + detail + ")";
  session->watch->publish(message);
  throw Error(ErrorId::PeerFailed, message);
}

void GlooCommunicator::wait(Ticket ticket) {
  InFlight *flight;
  {
    std::lock_guard lock(mutex);
    auto found = inFlight.find(ticket);
    if (found == inFlight.end())
      throw std::logic_error("no transfer with this ticket is in flight");
    flight = &found->second;
  }
  auto end = Clock::now() + session->deadline;
  for (Pending &pending : flight->pending) {
    std::string detail = "interrupted";
    bool complete = false;
    try {
      auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
      complete = pending.work->wait(std::max(left, milliseconds(1)));
    } catch (const std::exception &error) {
      detail = firstLine(error);
    }
    if (!complete)
      fail(flight->label, pending.peer, Clock::now() >= end, detail);
  }
  flight->transfer.finish();
  for (Staging::Block &block : flight->blocks)
    staging.give(std::move(block));
  std::lock_guard lock(mutex);
  inFlight.erase(ticket);
}

/// gloo writes to its sockets without MSG_NOSIGNAL: a peer that is gone would
/// kill this process before the error that names the peer is made.
static void ignoreBrokenPipes() {
  struct sigaction action{};
  if (sigaction(SIGPIPE, nullptr, &action) == 0 &&
      !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_DFL) {
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, nullptr);
  }
}

std::unique_ptr<Fabric> fsdp::connectGlooFabric(const FabricOptions &options) {
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
  ignoreBrokenPipes();
  int rank = launcher->rank;
  Rendezvous where = parseRendezvous(options.rendezvous);
  std::unique_ptr<Store> store =
      connectStore(where, rank, options.worldSize, options.deadline);
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
  auto session = std::make_shared<Session>(options, rank, std::move(store),
                                           where.isLoopback());
  auto fabric = std::make_unique<GlooFabric>(session);
  std::vector<int> all(options.worldSize);
  for (int other = 0; other < options.worldSize; ++other)
    all[other] = other;
  session->gather("join/", "", all, ErrorId::RankMissing, "joining the run");
  return fabric;
}
