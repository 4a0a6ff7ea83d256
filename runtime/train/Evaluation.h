//===- Evaluation.h - When a run validates, and what it says ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_EVALUATION_H
#define FSDP_RUNTIME_TRAIN_EVALUATION_H

#include "runtime/session/Session.h"
#include "runtime/train/Metrics.h"

#include <cstdint>
#include <optional>

namespace fsdp {

/// Validates between the steps of a run, and tells people and the metrics.
class Evaluation {
public:
  /// `every`, if given, stands for the artifact's number of steps from one
  /// validation to the next; 0: at the end alone. `metrics` may be null.
  Evaluation(Session &session, std::optional<uint64_t> every, Metrics *metrics);

  /// Whether it is time to, after so many steps; always after the last, if the
  /// session can.
  bool isDue(uint64_t steps, bool isLast) const;

  /// Collective. `steps` were taken. Throws fsdp::Error.
  void run(uint64_t steps);

  /// What the last one found, if there was one.
  const std::optional<EvalResult> &last() const { return result; }

  /// On stdout: what the last one found, if there was one.
  void printSummary() const;

private:
  Session &session;
  Metrics *metrics;
  uint64_t every = 0; ///< 0: at the end alone
  std::optional<EvalResult> result;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_EVALUATION_H
