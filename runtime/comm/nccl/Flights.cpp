//===- Flights.cpp - What becomes of NCCL's transfers ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/FlightRing.h"
#include "runtime/comm/Label.h"
#include "runtime/comm/nccl/Communicator.h"

#include <algorithm>
#include <thread>

using namespace fsdp;
using std::chrono::milliseconds;

/// How long ending a communicator may take, in good order or not.
static constexpr std::chrono::seconds kEndTime(10);

//===----------------------------------------------------------------------===//
// Looking after them
//===----------------------------------------------------------------------===//

EventHandle NcclCommunicator::takeEvent() {
  if (freeEvents.empty())
    return streams.createEvent();
  EventHandle event = freeEvents.back();
  freeEvents.pop_back();
  return event;
}

void NcclCommunicator::reap() {
  // The stream does one thing after another.
  for (Flight &flight : flights) {
    if (flight.isCaptured)
      continue;
    if (!flight.isComplete && !streams.query(flight.done))
      break;
    flight.isComplete = true;
  }
  while (!flights.empty() && flights.front().isWaited &&
         flights.front().isComplete) {
    freeEvents.push_back(flights.front().ready);
    freeEvents.push_back(flights.front().done);
    flights.pop_front();
    ++first;
  }
}

std::optional<CapturedTransfers::Transfer>
NcclCommunicator::findTurn(Clock::time_point now) {
  reap();
  std::optional<CapturedTransfers::Transfer> launched = captured->current(now);
  auto flight = std::ranges::find_if(flights, [](const Flight &flight) {
    return !flight.isComplete && !flight.isCaptured;
  });
  if (flight == flights.end() ||
      (launched && launched->position < flight->position))
    return launched;
  if (!flight->began && streams.query(flight->ready))
    flight->began = now;
  return CapturedTransfers::Transfer{flight->label, flight->position,
                                     flight->began};
}

std::optional<uint64_t> NcclCommunicator::position() {
  std::lock_guard lock(mutex);
  auto turn = findTurn(Clock::now());
  return turn && turn->began ? std::optional(turn->position) : std::nullopt;
}

std::optional<NcclCommunicator::Trouble>
NcclCommunicator::inspect(Clock::time_point now) {
  std::lock_guard lock(mutex);
  if (!comm)
    return std::nullopt;
  std::optional<CapturedTransfers::Transfer> turn;
  Trouble trouble{};
  try {
    turn = findTurn(now);
  } catch (const Error &error) {
    trouble.id = error.id();
    trouble.reason = error.what();
  }
  if (flightGroup && trouble.reason.empty()) {
    using std::chrono::nanoseconds;
    auto began = turn && turn->began ? turn->began->time_since_epoch()
                                     : Clock::duration(0);
    flightGroup->setTurn(
        turn ? turn->position : issued,
        std::chrono::duration_cast<nanoseconds>(began).count());
  }
  trouble.self = turn ? describe(shared->peers().rank(), turn->label)
                      : "rank " + std::to_string(shared->peers().rank()) +
                            ": group '" + name + "'";
  if (!trouble.reason.empty())
    return trouble;
  nccl::Result result = nccl::Result::success;
  nccl::Result asked = nccl.CommGetAsyncError(comm, &result);
  if (asked != nccl::Result::success)
    result = asked;
  if (result != nccl::Result::success && result != nccl::Result::inProgress) {
    trouble.reason = "NCCL failed: " + nccl.describe(result, comm);
    return trouble;
  }
  if (!turn || !turn->began || now - *turn->began < shared->peers().deadline())
    return std::nullopt;
  trouble.isLate = true;
  trouble.ranks = ranks;
  trouble.position = turn->position;
  return trouble;
}

//===----------------------------------------------------------------------===//
// Ending
//===----------------------------------------------------------------------===//

void NcclCommunicator::abort() noexcept {
  std::lock_guard lock(mutex);
  if (comm)
    ending.begin(nccl, comm);
  comm = nullptr;
}

bool NcclCommunicator::finish() {
  Describe self = [&] {
    return "rank " + std::to_string(shared->peers().rank()) +
           ": leaving group '" + name + "'";
  };
  shared->check(self);
  std::unique_lock lock(mutex);
  auto unwaited = std::ranges::find_if(
      flights, [](const Flight &flight) { return !flight.isWaited; });
  if (unwaited != flights.end()) {
    TransferLabel label = unwaited->label;
    lock.unlock();
    shared->peers().publish(describe(shared->peers().rank(), label) +
                            ": ended before it was complete");
    return false;
  }
  // The host may be far ahead of the device. Graphs are launched on the compute
  // stream, which knows of errors, too.
  EventHandle launched = nullptr;
  if (captured->current(Clock::now())) {
    freeEvents.push_back(launched = takeEvent());
    streams.record(launched, streams.compute());
  }
  while (!flights.empty() || (launched && !streams.query(launched))) {
    lock.unlock();
    std::this_thread::sleep_for(milliseconds(1));
    shared->check(self);
    lock.lock();
    reap();
  }
  if (!comm)
    return false;
  for (const auto &[key, operation] : operations)
    nccl.RedOpDestroy(operation, comm);
  operations.clear();
  if (window)
    settle(lock, self, "ncclCommWindowDeregister",
           nccl.CommWindowDeregister(comm, window), Settled::ask);
  nccl::Result result = nccl.CommFinalize(comm);
  auto end = Clock::now() +
             std::min<milliseconds>(shared->peers().deadline(), kEndTime);
  while (comm && result == nccl::Result::inProgress && Clock::now() < end) {
    lock.unlock();
    std::this_thread::sleep_for(milliseconds(1));
    lock.lock();
    if (comm && nccl.CommGetAsyncError(comm, &result) != nccl::Result::success)
      return false;
  }
  if (!comm || result != nccl::Result::success)
    return false;
  nccl.CommDestroy(comm);
  comm = nullptr;
  return true;
}

NcclCommunicator::~NcclCommunicator() {
  try {
    streams.use();
    if (!finish()) {
      // All of the rank's: what is queued here may wait for another's.
      shared->interrupt();
      // Kernels that were running leave this rank's memory alone from now on.
      EventHandle ended = takeEvent();
      freeEvents.push_back(ended);
      streams.record(ended, stream);
      streams.synchronize(ended, Clock::now() + kEndTime);
    }
  } catch (const std::exception &) {
    // The rank failed, or its device: whoever destroys this knows it.
    shared->interrupt();
  }
  release();
}

void NcclCommunicator::release() noexcept {
  shared->remove(this);
  // Where the device still works on them, to give back counters would wait for
  // it without an end.
  auto time = std::min<milliseconds>(shared->peers().deadline(), kEndTime);
  if (!ending.wait(time) && captured)
    captured->leave();
  captured.reset();
  for (const Flight &flight : flights) {
    streams.destroyEvent(flight.ready);
    streams.destroyEvent(flight.done);
  }
  for (EventHandle event : freeEvents)
    streams.destroyEvent(event);
  if (stream)
    streams.destroyStream(stream);
}
