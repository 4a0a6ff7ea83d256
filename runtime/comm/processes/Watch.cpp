//===- Watch.cpp - Learn that another process failed ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/processes/Watch.h"
#include "support/Error.h"

using namespace fsdp;

static constexpr const char *kKey = "failure";
static constexpr const char *kStopKey = "stop";
static constexpr std::chrono::milliseconds kPeriod(200);

Watch::Watch(Store &store, int rank)
    : store(store), rank(rank), thread([this] { run(); }) {}

Watch::~Watch() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void Watch::run() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    // Whatever goes wrong here is no reason to take the process along.
    try {
      ask();
      if (reason) {
        for (auto &[handle, interrupt] : interrupts)
          interrupt();
        interrupts.clear();
      }
      listenForStop();
    } catch (const std::exception &error) {
      if (!reason)
        reason = std::string("the peers cannot be watched: ") + error.what();
    }
    changed.wait_for(lock, kPeriod, [&] { return stopping; });
  }
}

void Watch::ask() {
  if (reason)
    return;
  try {
    reason = store.tryGet(kKey);
  } catch (const Error &) {
    reason = "the store where the ranks met does not answer: the process that "
             "served it (rank 0, or the launcher) ended or hangs";
  }
}

void Watch::hearStop(const std::string &rounds) {
  stop.set(std::stoull(rounds));
  store.set(kStopHeard + std::to_string(rank), "");
}

void Watch::listenForStop() {
  if (stop.get() || reason)
    return;
  try {
    if (std::optional<std::string> rounds = store.tryGet(kStopKey))
      hearStop(*rounds);
  } catch (const Error &) {
    // `ask` says next time that the store is gone.
  }
}

void Watch::publishStop(uint64_t rounds) {
  std::lock_guard lock(mutex);
  if (!stop.get())
    hearStop(store.setFirst(kStopKey, std::to_string(rounds)));
}

std::string Watch::publish(const std::string &text) {
  std::lock_guard lock(mutex);
  ask();
  if (!reason) {
    try {
      reason = store.setFirst(kKey, text);
    } catch (const Error &) {
      reason = text;
    }
  }
  return *reason;
}

std::optional<std::string> Watch::failure() {
  std::lock_guard lock(mutex);
  ask();
  return reason;
}

int Watch::add(std::function<void()> interrupt) {
  std::lock_guard lock(mutex);
  if (reason)
    interrupt();
  else
    interrupts[next] = std::move(interrupt);
  return next++;
}

void Watch::remove(int handle) {
  std::lock_guard lock(mutex);
  interrupts.erase(handle);
}
