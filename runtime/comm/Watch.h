//===- Watch.h - Learn that another process failed --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_WATCH_H
#define FSDP_RUNTIME_COMM_WATCH_H

#include "runtime/comm/Store.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace fsdp {

/// Looks for the reason that a failing rank left in the store, several times a
/// second, in a thread of its own, and interrupts whoever waits meanwhile. The
/// first reason that anybody left is the root cause; later ones are dropped.
class Watch {
public:
  explicit Watch(std::unique_ptr<Store> store);
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

  /// Leaves `reason` for the others. Returns the root cause.
  std::string publish(const std::string &reason);

  /// Why the run failed, asking the store; empty if it did not.
  std::optional<std::string> failure();

  /// `interrupt` is called once, from the watching thread, when the run fails,
  /// or at once if it already did. It may not call the watch.
  int add(std::function<void()> interrupt);
  /// Afterwards it is not running and will not be called.
  void remove(int handle);

private:
  void run();
  /// The caller holds the mutex.
  void ask();

  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<Store> store;
  std::optional<std::string> reason;
  std::map<int, std::function<void()>> interrupts;
  int next = 0;
  bool stopping = false;
  std::thread thread;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_WATCH_H
