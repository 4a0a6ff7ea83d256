//===- Termination.cpp - SIGTERM ends a run between two steps -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Termination.h"

#include "runtime/comm/Communicator.h"

#include <atomic>
#include <csignal>
#include <mutex>

using namespace fsdp;

namespace {

std::atomic<bool> hasArrived{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note(int) { hasArrived = true; }

// Of the ranks that are threads of this process.
std::mutex mutex;
int users = 0;
struct sigaction before;

} // namespace

Termination::Termination(Fabric &fabric) : fabric(fabric) {
  std::lock_guard lock(mutex);
  if (users++ != 0)
    return;
  hasArrived = false;
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigaction(SIGTERM, &action, &before);
}

Termination::~Termination() {
  std::lock_guard lock(mutex);
  if (--users == 0)
    sigaction(SIGTERM, &before, nullptr);
}

bool Termination::isDue(uint64_t steps) {
  if (hasArrived && !fabric.stopAfter())
    fabric.requestStop(steps);
  std::optional<uint64_t> after = fabric.stopAfter();
  return after && steps >= *after;
}
