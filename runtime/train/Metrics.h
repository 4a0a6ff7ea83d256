//===- Metrics.h - One line of JSON a step ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_METRICS_H
#define FSDP_RUNTIME_TRAIN_METRICS_H

#include "runtime/session/Session.h"
#include "runtime/train/Throughput.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// Most memory that this process ever had resident, in bytes.
uint64_t peakResidentBytes();

/// Writes metrics on rank 0; on the others it only takes part. The file is made
/// anew, or continued behind the lines of the steps before if the session
/// continues a training; each line is flushed, so that it can be followed.
class Metrics {
public:
  /// Throws fsdp::Error (FileNotWritable).
  Metrics(const Session &session, const std::string &path);
  ~Metrics();
  Metrics(const Metrics &) = delete;
  Metrics &operator=(const Metrics &) = delete;

  /// Collective. Throws fsdp::Error.
  void write(const StepReport &report, bool isLast);

  /// What validation found after `steps` steps, in `seconds`. Throws
  /// fsdp::Error.
  void write(const EvalResult &result, uint64_t steps, double seconds);

private:
  void writeLine(const std::string &line);
  void updateResident(uint64_t step, bool isLast);

  const Session &session;
  std::string path;
  const uint64_t first;      ///< step of this run
  std::FILE *file = nullptr; ///< on rank 0
  std::vector<uint64_t> resident;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_METRICS_H
