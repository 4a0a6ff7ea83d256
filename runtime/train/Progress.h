//===- Progress.h - How far a run has come ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_PROGRESS_H
#define FSDP_RUNTIME_TRAIN_PROGRESS_H

#include "runtime/train/Throughput.h"

#include <chrono>
#include <cstdint>

namespace fsdp {

/// On stderr: the validation's loss after so many steps.
void printEvaluation(const EvalResult &result, uint64_t steps, double seconds);

/// On stderr: a bar that is drawn again and again on a terminal, else a line
/// every few seconds.
class Progress {
public:
  /// Of `steps` in all, `before` were done by earlier runs.
  Progress(uint64_t steps, uint64_t before);
  void update(const StepReport &report);

private:
  using Clock = std::chrono::steady_clock;

  const uint64_t steps, before;
  const bool isTerminal;
  const Clock::time_point begin;
  Clock::time_point last;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_PROGRESS_H
