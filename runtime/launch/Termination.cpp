//===- Termination.cpp - Signals end a run in good order ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/launch/Termination.h"

#include "runtime/comm/Communicator.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

using namespace fsdp;
using std::chrono::milliseconds;

namespace {

/// A launcher's own copy of a signal comes within so much.
constexpr int64_t kSameSignal = 250'000'000; // ns
/// How soon ranks that start up end, and how long those that have not met yet
/// may take to say so.
constexpr milliseconds kPeriod(50), kMeeting(2000);

enum class Phase { off, starting, training };

std::atomic<int> arrived{0};
std::atomic<int64_t> arrivedAt{0};
std::atomic<Phase> phase{Phase::off};
static_assert(std::atomic<int64_t>::is_always_lock_free);
static_assert(std::atomic<Phase>::is_always_lock_free);

struct sigaction beforeTerm, beforeInt;

int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Nothing but what signal handlers may call.
void note(int number) {
  int none = 0;
  if (arrived.compare_exchange_strong(none, number)) {
    arrivedAt = now();
    return;
  }
  if (now() - arrivedAt < kSameSignal)
    return;
  signal(number, SIG_DFL);
  raise(number); // when this returns
}

void restore() {
  if (phase.exchange(Phase::off) == Phase::off)
    return;
  sigaction(SIGTERM, &beforeTerm, nullptr);
  sigaction(SIGINT, &beforeInt, nullptr);
}

// The process's ranks, while they live.
std::mutex mutex;
std::span<const std::unique_ptr<Fabric>> connected;

/// Whether there were ranks to tell.
bool tellRanks() {
  std::lock_guard lock(mutex);
  for (const auto &fabric : connected)
    fabric->abort(std::string(Termination::signalName()) +
                  " while ranks started up");
  return !connected.empty();
}

[[noreturn]] void end() {
  int number = arrived;
  std::fprintf(stderr, "%s while ranks started up: ended\n",
               Termination::signalName());
  signal(number, SIG_DFL);
  raise(number);
  std::abort(); // Not reached: it is not blocked.
}

void watchStart(const std::stop_token &stop) {
  std::mutex own;
  std::condition_variable_any changed;
  std::unique_lock lock(own);
  std::optional<std::chrono::steady_clock::time_point> last;
  while (!stop.stop_requested()) {
    changed.wait_for(lock, stop, kPeriod, [] { return false; });
    if (!TerminationSignals::endsStart())
      continue;
    if (!last)
      last = std::chrono::steady_clock::now() + kMeeting;
    if (tellRanks() || std::chrono::steady_clock::now() >= *last)
      end();
  }
}

std::optional<std::jthread> starter;

} // namespace

TerminationSignals::TerminationSignals() {
  arrived = 0;
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESTART);
  sigaction(SIGTERM, nullptr, &beforeTerm);
  sigaction(SIGINT, nullptr, &beforeInt);
  phase = Phase::starting;
  sigaction(SIGTERM, &action, nullptr);
  // What a shell's background jobs ignore stays ignored.
  if (beforeInt.sa_handler != SIG_IGN)
    sigaction(SIGINT, &action, nullptr);
  starter.emplace(watchStart);
}

TerminationSignals::~TerminationSignals() {
  starter.reset();
  restore();
}

bool TerminationSignals::endsStart() {
  return phase == Phase::starting && arrived != 0;
}

std::shared_ptr<void>
TerminationSignals::watch(std::span<const std::unique_ptr<Fabric>> ranks) {
  {
    std::lock_guard lock(mutex);
    connected = ranks;
  }
  return {nullptr, [](void *) {
            std::lock_guard lock(mutex);
            connected = {};
          }};
}

void TerminationSignals::release() {
  restore();
  if (arrived)
    raise(arrived);
}

void TerminationSignals::obey() {
  if (endsStart())
    end();
}

Termination::Termination(Fabric &fabric) : fabric(fabric) {
  Phase starting = Phase::starting;
  phase.compare_exchange_strong(starting, Phase::training);
}

bool Termination::isDue(uint64_t steps) {
  if (arrived && phase == Phase::training && !fabric.stopAfter())
    fabric.requestStop(steps);
  std::optional<uint64_t> after = fabric.stopAfter();
  return after && steps >= *after;
}

const char *Termination::signalName() {
  return arrived == SIGINT ? "SIGINT" : "SIGTERM";
}
