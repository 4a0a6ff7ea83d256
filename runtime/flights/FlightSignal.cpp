//===- FlightSignal.cpp - SIGUSR1 asks for the flight record --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/flights/FlightSignal.h"

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <pthread.h>
#include <unistd.h>

using namespace fsdp;

namespace {
std::atomic<int> listener{-1};
std::atomic<bool> come{false};
std::atomic<bool> installed{false};
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

/// Nothing but what signal handlers may call.
void note(int) {
  int saved = errno;
  come = true;
  int event = listener;
  uint64_t one = 1;
  if (event >= 0 && write(event, &one, sizeof(one)) < 0) {
    // The counter is full: whoever reads it has enough to do.
  }
  errno = saved;
}

sigset_t usr1() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  return set;
}
} // namespace

FlightSignal::FlightSignal() {
  if (sigaction(SIGUSR1, nullptr, &before) != 0 ||
      (before.sa_flags & SA_SIGINFO) || before.sa_handler != SIG_DFL)
    return;
  come = false;
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESTART);
  sigset_t set = usr1();
  if (sigaction(SIGUSR1, &action, nullptr) != 0)
    return;
  pthread_sigmask(SIG_BLOCK, &set, &maskBefore);
  installed = isInstalled = true;
}

FlightSignal::~FlightSignal() {
  if (!isInstalled)
    return;
  installed = false;
  // One that is pending goes to the handler rather than end the process.
  pthread_sigmask(SIG_SETMASK, &maskBefore, nullptr);
  sigaction(SIGUSR1, &before, nullptr);
}

void FlightSignal::listen(int event) {
  listener = event;
  if (event < 0 || !installed)
    return;
  sigset_t set = usr1();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  if (come)
    note(SIGUSR1);
}

bool FlightSignal::hasCome() { return come.exchange(false); }
