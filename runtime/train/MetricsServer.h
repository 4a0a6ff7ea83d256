//===- MetricsServer.h - Numbers for Prometheus -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Answers GET /metrics with the newest numbers, in Prometheus' text format
// 0.0.4. Knows nothing else of HTTP, has no secrets, and takes none.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_TRAIN_METRICSSERVER_H
#define FSDP_RUNTIME_TRAIN_METRICSSERVER_H

#include "runtime/session/Session.h"
#include "runtime/train/Throughput.h"

#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace fsdp {

class MetricsServer {
public:
  /// `where`: "[HOST:]PORT"; without a host the loopback alone. Throws
  /// fsdp::Error (BadUsage) if it is no such text, or cannot be listened at.
  explicit MetricsServer(const std::string &where);
  ~MetricsServer();
  MetricsServer(const MetricsServer &) = delete;
  MetricsServer &operator=(const MetricsServer &) = delete;

  void update(const StepReport &report);
  void update(const EvalResult &result);

private:
  void serve();
  void answer(int connection) const;
  std::string text() const;

  int listener = -1;
  int wakes[2] = {-1, -1}; ///< a pipe: bytes end the thread
  std::thread server;
  mutable std::mutex mutex;
  // Guarded:
  std::string steps;
  std::string evaluations;
  uint64_t skipped = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_METRICSSERVER_H
