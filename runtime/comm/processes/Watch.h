//===- Watch.h - Learn that another process failed --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_PROCESSES_WATCH_H
#define FSDP_RUNTIME_COMM_PROCESSES_WATCH_H

#include "runtime/comm/StopRound.h"
#include "runtime/comm/processes/Store.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace fsdp {

/// Looks for what ranks tell all others through the store, several times a
/// second, in a thread of its own: the reason that a failing rank left, upon
/// which it interrupts whoever waits meanwhile (the first reason that anybody
/// left is the root cause; later ones are dropped), and the round to stop
/// after.
class Watch {
public:
  /// `store` outlives it.
  Watch(Store &store, int rank);
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

  /// Leaves `reason` for the others. Returns the root cause.
  std::string publish(const std::string &reason);

  /// Why the run failed, asking the store; empty if it did not.
  std::optional<std::string> failure();

  /// Asks all ranks to stop after `rounds`, unless one did before.
  void publishStop(uint64_t rounds);
  /// Fabric::stopAfter.
  std::optional<uint64_t> stopAfter() const noexcept { return stop.get(); }

  /// `interrupt` is called once, from the watching thread, when the run fails,
  /// or at once if it already did. It may not call the watch.
  int add(std::function<void()> interrupt);
  /// Afterwards it is not running and will not be called.
  void remove(int handle);

private:
  void run();
  /// The caller holds the mutex.
  void ask();
  void listenForStop();
  void hearStop(const std::string &rounds);

  Store &store;
  const int rank;
  StopRound stop;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> reason;
  std::map<int, std::function<void()>> interrupts;
  int next = 0;
  bool stopping = false;
  std::thread thread;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PROCESSES_WATCH_H
