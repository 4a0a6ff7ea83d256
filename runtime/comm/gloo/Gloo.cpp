//===- Gloo.cpp - Ranks that are processes, over TCP ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#define USE_C10D_GLOO 1

#include "runtime/comm/gloo/Gloo.h"
#include "runtime/comm/FlightRing.h"
#include "runtime/comm/Label.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/Staging.h"
#include "runtime/comm/Unpinned.h"
#include "runtime/comm/gloo/LoopThreads.h"
#include "runtime/comm/gloo/MeetingStore.h"
#include "runtime/comm/gloo/Transfer.h"
#include "runtime/comm/processes/Processes.h"
#include "support/Error.h"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <unordered_map>
#include <utility>

using namespace fsdp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// gloo waits so many times as long as it is told to for a peer that is to
/// connect (gloo/transport/tcp/pair.h, waitUntil).
static constexpr int kConnectFactor = 5;
/// Between the deadlines of ranks that wait for the same one.
static constexpr milliseconds kOthersTime(1000);
/// Below it, ranks leave a value once gloo is done, however it went.
static constexpr const char *kConnect = "connect/";

namespace {

class GlooCommunicator final : public Communicator {
public:
  GlooCommunicator(std::shared_ptr<Processes> session, const GroupRanks &group,
                   const std::string &key, const cpu_set_t &processors);
  ~GlooCommunicator() override;

  int rank() const override { return place; }
  int size() const override { return static_cast<int>(ranks.size()); }

  Ticket start(const Transfer &transfer) override;
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

  c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>
  makeOptions(const cpu_set_t &processors);
  [[noreturn]] void failToConnect(const std::string &name,
                                  const std::string &key,
                                  Clock::time_point begin,
                                  const std::string &detail);
  void post(InFlight &flight);
  /// Turns a failed message from or to `peer` into an error of ours.
  [[noreturn]] void fail(const TransferLabel &label, int peer, bool late,
                         const std::string &detail);
  void interrupt();

  std::shared_ptr<Processes> session;
  const std::vector<int> ranks;
  const int place;
  FlightGroup *const flights; ///< may be null
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
  explicit GlooFabric(std::shared_ptr<Processes> session)
      : Fabric(session), session(std::move(session)) {}

  std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) override {
    return std::make_unique<GlooCommunicator>(
        session, group, session->nextKey(group), processors);
  }

private:
  std::shared_ptr<Processes> session;
  /// Of gloo's threads.
  const cpu_set_t processors = allowedProcessors();
};

} // namespace

/// LibTorch's messages carry a stack trace behind the first line.
static std::string firstLine(const std::exception &error) {
  std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

GlooCommunicator::GlooCommunicator(std::shared_ptr<Processes> shared,
                                   const GroupRanks &group,
                                   const std::string &key,
                                   const cpu_set_t &processors)
    : session(std::move(shared)), ranks(group.ranks),
      place(static_cast<int>(std::ranges::find(ranks, session->rank()) -
                             ranks.begin())),
      flights(group.flights) {
  auto options = makeOptions(processors);
  // Whoever is missing is found out here, where it has a name.
  session->gather(key + "come/", "", ranks, ErrorId::DeadlinePassed,
                  "connecting group '" + group.name + "'");
  auto begin = Clock::now();
  try {
    LoopThreads loopThreads(processors);
    this->group = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<MeetingStore>(session,
                                          session->meetingPlace().under(key)),
        place, size(), std::move(options));
  } catch (const std::exception &error) {
    failToConnect(group.name, key, begin, firstLine(error));
  }
  session->survey(key + kConnect, "", {}, milliseconds(0));
  watchHandle = session->add([this] { interrupt(); });
}

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>
GlooCommunicator::makeOptions(const cpu_set_t &processors) {
  auto options = c10d::ProcessGroupGloo::Options::create(
      std::max(session->deadline() / kConnectFactor, milliseconds(1)));
  // Messages are moved by the device's own thread; this one stays idle.
  options->threads = 1;
  const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
  try {
    LoopThreads loopThreads(processors);
    options->devices.push_back(
        session->isLoopback()
            ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
        : interface && *interface ? c10d::ProcessGroupGloo::
                                        createDeviceForInterface(interface)
                                  : c10d::ProcessGroupGloo::
                                        createDefaultDevice());
  } catch (const std::exception &error) {
    std::string message =
        "rank " + std::to_string(session->rank()) +
        ": expected a network interface for gloo, found: " + firstLine(error) +
        "; name one in GLOO_SOCKET_IFNAME";
    session->publish(message);
    throw Error(ErrorId::RendezvousInvalid, message);
  }
  return options;
}

void GlooCommunicator::failToConnect(const std::string &name,
                                     const std::string &key,
                                     Clock::time_point begin,
                                     const std::string &detail) {
  std::string self = "rank " + std::to_string(session->rank()) +
                     ": connecting group '" + name + "': ";
  // gloo does not say who did not answer. All others say that they connected
  // or did not, the last of them at their deadlines.
  auto left = std::chrono::ceil<milliseconds>(begin + session->deadline() -
                                              Clock::now());
  auto said = session->survey(key + kConnect, "", ranks,
                              std::max(left, milliseconds(0)) + kOthersTime);
  // A peer that connected, failed and went, before the others had connected.
  if (std::optional<std::string> reason = session->failure())
    throw Error(ErrorId::PeerFailed, self + *reason);
  std::vector<int> missing;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (!said[i])
      missing.push_back(ranks[i]);
  std::string message =
      self + "expected " +
      (missing.empty() ? "all ranks" : describeRanks(missing)) +
      " to connect within " + describe(session->deadline()) +
      ", but did not (" + detail + ")";
  session->publish(message);
  throw Error(missing.empty() ? ErrorId::PeerFailed : ErrorId::DeadlinePassed,
              message);
}

GlooCommunicator::~GlooCommunicator() {
  session->remove(watchHandle);
  if (!inFlight.empty())
    session->publish(describe(session->rank(), inFlight.begin()->second.label) +
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

Communicator::Ticket GlooCommunicator::start(const Transfer &transfer) {
  checkReductions(transfer);
  InFlight flight;
  flight.label = transfer.label;
  flight.transfer =
      GlooTransfer::make(transfer, place, size(), [&](size_t bytes) {
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
        int next = tag;
        for (const GlooMessage &message : flight.transfer.messages) {
          int each = std::exchange(next, (next + 1) & 0x3FFFFFFF);
          int only = sends ? message.to : message.source;
          if (only != GlooMessage::kAll && only != peer)
            continue;
          auto tensors = sends ? wrap(message.send + peer * message.sendStride,
                                      message.bytes)
                               : wrap(message.from(peer, place), message.bytes);
          flight.pending.push_back(
              {peer, sends ? group->send(tensors, peer, each)
                           : group->recv(tensors, peer, each)});
        }
      }
  } catch (const std::exception &error) {
    fail(flight.label, peer, false, firstLine(error));
  }
  tag = static_cast<int>((tag + flight.transfer.messages.size()) & 0x3FFFFFFF);
}

void GlooCommunicator::fail(const TransferLabel &label, int peer, bool late,
                            const std::string &detail) {
  std::string self = describe(session->rank(), label);
  // A peer that failed said so before it went: its reason is the cause, what
  // the connection says only a consequence.
  if (std::optional<std::string> reason = session->failure())
    throw Error(ErrorId::PeerFailed, self + ": " + *reason);
  std::string other = "rank " + std::to_string(ranks[peer]);
  if (late) {
    std::string message = self + ": expected " + other +
                          " to take part within " +
                          describe(session->deadline()) + ", but did not";
    session->publish(message);
    throw Error(ErrorId::DeadlinePassed, message);
  }
  std::string message =
      self + ": lost the connection to " + other + " (" + detail + ")";
  session->publish(message);
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
  auto end = Clock::now() + session->deadline();
  for (Pending &pending : flight->pending) {
    if (flights)
      flights->setAwaited(ranks[pending.peer]);
    std::string detail = "interrupted";
    bool complete = false;
    try {
      // Rounded up: a wait that ends before `end` would read as a lost peer.
      auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
      complete = pending.work->wait(std::max(left, milliseconds(1)));
    } catch (const std::exception &error) {
      detail = firstLine(error);
    }
    if (!complete)
      fail(flight->label, pending.peer, Clock::now() >= end, detail);
  }
  if (flights)
    flights->setAwaited(-1);
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

std::unique_ptr<Fabric>
fsdp::makeGlooFabric(std::shared_ptr<Processes> processes) {
  ignoreBrokenPipes();
  return std::make_unique<GlooFabric>(std::move(processes));
}

std::unique_ptr<Fabric> fsdp::connectGlooFabric(const FabricOptions &options) {
  return makeGlooFabric(Processes::connect(options));
}
