//===- Monitors.h - What dashboards learn of a run --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_MONITORS_H
#define FSDP_RUNTIME_TRAIN_MONITORS_H

#include "runtime/train/EventFile.h"
#include "runtime/train/MetricsServer.h"
#include "runtime/train/Throughput.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fsdp {

struct MonitorOptions {
  std::string tensorboard; ///< folder; empty: none
  std::string prometheus;  ///< "[HOST:]PORT"; empty: none
};

/// Of rank 0.
class Monitors {
public:
  /// `first`: the first step of this run. Throws fsdp::Error.
  Monitors(const MonitorOptions &options, uint64_t first);

  void write(const StepReport &report);
  /// After so many steps, at least one.
  void write(const EvalResult &result, uint64_t steps);

private:
  std::optional<EventFile> events;
  std::optional<MetricsServer> server;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_MONITORS_H
