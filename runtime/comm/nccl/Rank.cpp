//===- Rank.cpp - What one rank's NCCL communicators share ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/nccl/Rank.h"
#include "runtime/comm/Label.h"
#include "runtime/comm/nccl/Communicator.h"
#include "runtime/comm/nccl/Nccl.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace fsdp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool fsdp::isAskedFor(const char *variable) {
  const char *asked = std::getenv(variable);
  return asked && *asked && std::strcmp(asked, "0") != 0;
}

/// Two kernels of NCCL that each wait for a peer's must not be started in
/// another order there: on a full device, each would keep the other out. All
/// ranks make their calls in one order, which NCCL keeps if it is told to.
static constexpr const char *kLaunchOrder = "NCCL_LAUNCH_ORDER_IMPLICIT";

void fsdp::prepareNccl() {
  // In a capture NCCL would else register buffers with the network, where
  // transfers of several sizes then share connections, and may hang for good;
  // and with all ranks of a machine, where one of them that cannot capture
  // would not take part.
  setenv("NCCL_GRAPH_REGISTER", "0", /*overwrite=*/0);
  setenv(kLaunchOrder, "1", 0);
}

NcclRank::NcclRank(std::shared_ptr<Peers> peers,
                   std::shared_ptr<Streams> streams,
                   std::function<void(const std::string &)> note)
    : others(std::move(peers)), device(std::move(streams)),
      tell(std::move(note)),
      interruptHandle(others->add([this] { interrupt(); })) {}

NcclRank::~NcclRank() {
  others->remove(interruptHandle);
  if (thread.joinable()) {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }
  if (order)
    device->destroyEvent(order);
}

const NcclLibrary &NcclRank::library() {
  std::lock_guard lock(libraryMutex);
  if (loaded)
    return *loaded;
  loaded = NcclLibrary::load();
  note("transfers are made by NCCL " + loaded->versionText());
  if (blocking)
    note("NCCL's calls block: FSDP_NCCL_BLOCKING is set");
  bool isOld = loaded->versionCode < NcclLibrary::kLaunchOrder;
  if (isOld || !isAskedFor(kLaunchOrder)) {
    order = device->createEvent();
    note("transfers of different streams do not overlap: " +
         (isOld ? "that needs NCCL 2.26 or newer"
                : std::string(kLaunchOrder) + " is not 1"));
  }
  return *loaded;
}

void NcclRank::note(const std::string &text) const {
  if (tell)
    tell(text);
}

void NcclRank::beforeCall(StreamHandle stream) {
  if (!order)
    return;
  // Work that is being captured cannot come after work that is not: a graph is
  // ordered with the rest by the stream on which it is launched.
  Ordered now = device->isCapturing(stream) ? Ordered::capture : Ordered::work;
  if (now == ordered)
    device->wait(stream, order);
  ordered = now;
}

void NcclRank::afterCall(StreamHandle stream) {
  if (order)
    device->record(order, stream);
}

void NcclRank::endCapture() {
  // The next call may be in another capture.
  if (ordered == Ordered::capture)
    ordered = Ordered::nothing;
}

Error NcclRank::fail(ErrorId id, const std::string &self,
                     const std::string &reason) {
  Error counts(id, self + ": " + reason);
  {
    std::lock_guard lock(failureMutex);
    if (failure)
      return *failure;
    if (!hasFailed)
      failure = counts;
  }
  // Without the mutex, which `throwFailure` takes when it asks the peers.
  std::string root = others->publish(counts.what());
  if (root != counts.what())
    counts = Error(ErrorId::PeerFailed, self + ": " + root);
  {
    std::lock_guard lock(failureMutex);
    failure = counts;
  }
  hasFailed.store(true, std::memory_order_release);
  endAll();
  return counts;
}

void NcclRank::interrupt() noexcept {
  hasFailed.store(true, std::memory_order_release);
  try {
    device->use();
  } catch (const Error &) {
    // NCCL knows its communicators' device itself.
  }
  endAll();
}

void NcclRank::throwFailure(const std::string &self) {
  {
    std::lock_guard lock(failureMutex);
    if (failure)
      throw *failure;
  }
  std::optional<std::string> reason = others->failure();
  throw Error(ErrorId::PeerFailed,
              self + ": " + reason.value_or("another rank failed"));
}

void NcclRank::endAll() noexcept {
  forEach([](NcclCommunicator &communicator) { communicator.abort(); });
}

void NcclRank::add(NcclCommunicator *communicator) {
  std::lock_guard lock(listMutex);
  list.push_back(communicator);
  if (!thread.joinable())
    thread = std::thread([this] { watch(); });
}

void NcclRank::remove(NcclCommunicator *communicator) {
  std::lock_guard lock(listMutex);
  std::erase(list, communicator);
}

void NcclRank::forEach(const std::function<void(NcclCommunicator &)> &visit) {
  std::lock_guard lock(listMutex);
  for (NcclCommunicator *communicator : list)
    visit(*communicator);
}

void NcclRank::watch() {
  // A thread that asks about events without a device takes memory of the first.
  try {
    device->use();
  } catch (const Error &) {
    // The rank's own calls find that, too.
  }
  milliseconds period =
      std::clamp(others->deadline() / 20, milliseconds(5), milliseconds(100));
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, period, [&] { return stopping; })) {
    if (hasFailed)
      continue;
    lock.unlock();
    try {
      inspect();
    } catch (const std::exception &error) {
      fail(ErrorId::NcclFailed, "rank " + std::to_string(others->rank()),
           std::string("its transfers cannot be watched: ") + error.what());
    }
    lock.lock();
  }
}

/// Who of the group did not come as far as this rank, as its members say that
/// are past their deadlines, too.
static std::vector<int> findAbsent(Peers &peers, const std::string &place,
                                   const NcclCommunicator::Trouble &trouble) {
  milliseconds time =
      std::clamp(peers.deadline() / 4, milliseconds(200), milliseconds(5000));
  auto positions = peers.survey(place, std::to_string(trouble.position),
                                trouble.ranks, time);
  std::vector<int> absent;
  for (size_t i = 0; i < trouble.ranks.size(); ++i)
    if (trouble.ranks[i] != peers.rank() &&
        (!positions[i] ||
         std::strtoull(positions[i]->c_str(), nullptr, 10) < trouble.position))
      absent.push_back(trouble.ranks[i]);
  return absent;
}

void NcclRank::leavePositions(const std::string &except) {
  std::map<std::string, uint64_t> positions;
  forEach([&](NcclCommunicator &communicator) {
    try {
      if (auto position = communicator.position())
        positions[communicator.meetingPoint()] = *position;
    } catch (const Error &) {
      // The device failed meanwhile, which the next look finds.
    }
  });
  positions.erase(except);
  for (const auto &[place, position] : positions)
    others->survey(place, std::to_string(position), {}, milliseconds(0));
}

void NcclRank::inspect() {
  std::optional<NcclCommunicator::Trouble> trouble;
  std::string place;
  auto now = Clock::now();
  forEach([&](NcclCommunicator &communicator) {
    if (trouble)
      return;
    trouble = communicator.inspect(now);
    place = communicator.meetingPoint();
  });
  if (!trouble)
    return;
  if (!trouble->isLate) {
    fail(trouble->id, trouble->self, trouble->reason);
    return;
  }
  leavePositions(place);
  std::vector<int> absent = findAbsent(*others, place, *trouble);
  std::string within = " within " + describe(others->deadline()) + ", but ";
  fail(ErrorId::DeadlinePassed, trouble->self,
       absent.empty() ? "expected it to be complete" + within +
                            "it was not, although all ranks take part"
                      : "expected " + describeRanks(absent) + " to take part" +
                            within + "did not");
}
