//===- FlightRecorder.cpp - Writes what ranks were doing ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/flights/FlightRecorder.h"

#include "runtime/comm/flights/RecordedFabric.h"
#include "runtime/flights/FlightRecord.h"
#include "runtime/flights/FlightRuns.h"
#include "runtime/flights/FlightSignal.h"
#include "runtime/log/Log.h"
#include "support/AtomicFile.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace fsdp;

/// The rank's own error, which says more, comes within it if it comes at all.
static constexpr int kOwnErrorMs = 1000;

static std::string hostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

FlightRecorder::FlightRecorder(const PlanFile &plan, std::string backend,
                               std::string folder, bool isInProcess,
                               std::vector<std::unique_ptr<Fabric>> &fabrics)
    : plan(plan), backend(std::move(backend)), folder(std::move(folder)) {
  for (const std::unique_ptr<Fabric> &fabric : fabrics) {
    world = static_cast<uint64_t>(fabric->worldSize());
    rings.push_back(std::make_unique<FlightRing>(fabric->rank()));
  }
  runName = makeRunName();
  if (!isInProcess && world > 1)
    runName = fabrics.front()->exchange("flight records", runName).front();
  // What comes from another process becomes a folder's name.
  if (!isRunName(runName))
    throw Error(ErrorId::RendezvousFailed,
                "expected a name of the run from rank 0, found '" + runName +
                    "'; start all ranks with the same fsdp-run");
  for (size_t i = 0; i < fabrics.size(); ++i)
    fabrics[i] =
        std::make_unique<RecordedFabric>(std::move(fabrics[i]), *rings[i]);
  if (this->folder.empty())
    return;
  event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event >= 0)
    thread = std::thread([this] { run(); });
}

FlightRecorder::~FlightRecorder() {
  if (!thread.joinable())
    return;
  stopping = true;
  uint64_t one = 1;
  while (::write(event, &one, sizeof(one)) < 0 && errno == EINTR)
    ;
  thread.join();
  close(event);
}

std::vector<std::shared_ptr<void>>
FlightRecorder::watch(const std::vector<std::unique_ptr<Fabric>> &fabrics) {
  std::vector<std::shared_ptr<void>> watches;
  if (event < 0)
    return watches;
  for (const auto &fabric : fabrics)
    watches.push_back(fabric->meeting()->onFailure([this] {
      peerFailed = true;
      uint64_t one = 1;
      if (::write(event, &one, sizeof(one)) < 0) {
        // Its reader has been woken already.
      }
    }));
  return watches;
}

void FlightRecorder::run() {
  FlightSignal::listen(event);
  pollfd ready{event, POLLIN, 0};
  bool isPeerHeard = false;
  while (!stopping) {
    bool waits = peerFailed && !isPeerHeard;
    int count = poll(&ready, 1, waits ? kOwnErrorMs : -1);
    uint64_t ignored = 0;
    if (count > 0 && read(event, &ignored, sizeof(ignored)) < 0) {
      // Somebody else's wake-up; what it was for is looked at below.
    }
    if (stopping)
      break;
    if (FlightSignal::hasCome())
      writeAll(Reason::request, "SIGUSR1");
    if (waits && count == 0) {
      isPeerHeard = true;
      if (hasBegun())
        writeAll(Reason::peer,
                 "another rank failed while this one did something else");
    }
  }
  FlightSignal::listen(-1);
}

bool FlightRecorder::hasBegun() const {
  return std::ranges::any_of(rings,
                             [](const auto &ring) { return ring->hasBegun(); });
}

void FlightRecorder::write(const Error &error) noexcept {
  if (error.id() == ErrorId::NotFinite ||
      (!hasBegun() && error.id() != ErrorId::DeadlinePassed)) {
    std::lock_guard lock(mutex);
    isOver = true;
    return;
  }
  writeAll(Reason::error, error.format());
}

std::string FlightRecorder::writtenTo() const {
  std::lock_guard lock(mutex);
  return isErrorWritten ? (std::filesystem::path(folder) / runName).string()
                        : std::string();
}

void FlightRecorder::writeAll(Reason reason,
                              const std::string &cause) noexcept {
  std::lock_guard lock(mutex);
  // What an error left says more than what came behind it.
  if (isOver || folder.empty())
    return;
  isOver = reason == Reason::error;
  auto path = std::filesystem::path(folder) / runName;
  try {
    std::filesystem::create_directories(path);
    for (const auto &ring : rings) {
      FlightRecord record = takeRecord(*ring, plan.plan());
      record.run = runName;
      record.plan = plan.hash();
      record.backend = backend;
      record.host = hostName();
      record.world = world;
      record.process = getpid();
      record.cause = cause;
      record.isAsked = reason == Reason::request;
      writeFileAtomically((path / recordName(record.rank)).string(),
                          printRecord(record));
    }
    isErrorWritten = reason == Reason::error;
    removeOldRuns(folder, kRunsKept, runName);
  } catch (const std::exception &failure) {
    log(LogLevel::warning, "the flight record cannot be written to '" +
                               path.string() + "': " + failure.what());
    return;
  }
  if (reason == Reason::request)
    log(LogLevel::warning,
        "SIGUSR1: the flight record is in '" + path.string() + "'");
}
