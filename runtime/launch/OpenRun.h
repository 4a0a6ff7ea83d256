//===- OpenRun.h - Ranks that wait for work ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_LAUNCH_OPENRUN_H
#define FSDP_RUNTIME_LAUNCH_OPENRUN_H

#include "runtime/launch/Launch.h"
#include "support/Error.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace fsdp {

/// One rank of this process, as work sees it.
struct OpenRank {
  Session &session;
  size_t number;             ///< in `OpenRun::sessions`
  std::shared_ptr<void> own; ///< what work leaves for later; goes first
};

/// `launch` for callers who have work for the ranks from time to time, rather
/// than a body that does all of it. Each rank of this process keeps a thread of
/// its own. Used by one thread at a time.
class OpenRun {
public:
  /// Returns when each rank has its session. Throws fsdp::Error as `launch`.
  explicit OpenRun(const LaunchOptions &options);
  /// As `close`, without its errors.
  ~OpenRun();
  OpenRun(const OpenRun &) = delete;
  OpenRun &operator=(const OpenRun &) = delete;

  /// Sessions of this process, by rank; their constant members may be called
  /// here between two calls of `run`. Valid until the run is over.
  const std::vector<Session *> &sessions() const { return all; }

  /// Does `work` on all ranks of this process, each on its thread; returns when
  /// all have. An exception ends the run:
  /// this call throws fsdp::Error as `launch`, those that follow one that says
  /// so.
  void run(const std::function<void(OpenRank &)> &work);

  /// Whether there are ranks that work can be given to.
  bool isOpen() const { return runner.joinable() && !isOver; }
  /// Throws fsdp::Error (RuntimeUnsupported) that says why there are none.
  void checkOpen() const;

  /// Ends all ranks, between two pieces of work. With a reason, ranks of other
  /// processes learn that this one gave up. Throws fsdp::Error.
  void close(const std::string &reason = {});

private:
  /// Of each rank: does the work that comes, until there is no more.
  void serve(Session &session);
  /// Waits for the launch to end and throws what it threw.
  void join();

  std::vector<Session *> all;
  std::thread runner;
  std::optional<Error> failure; ///< of the runner
  std::string ended;            ///< why nothing can be done any more
  bool isOver = false;

  std::atomic<uint64_t> published = 0; ///< `number`, to be read without a lock
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded:
  size_t expected = 0; ///< ranks of this process; 0: not known yet
  size_t ready = 0, busy = 0;
  uint64_t number = 0; ///< of the last piece of work
  const std::function<void(OpenRank &)> *work = nullptr;
  bool isClosing = false, hasFailed = false, hasEnded = false;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_OPENRUN_H
