//===- BestLoss.h - Whether validation finds a run better -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_BESTLOSS_H
#define FSDP_RUNTIME_TRAIN_BESTLOSS_H

#include "runtime/checkpoint/Validations.h"
#include "runtime/session/Session.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// The losses of a run's validations. All ranks have the same ones.
class BestLoss {
public:
  /// `folder`: of checkpoints, where losses are written down, too; those of it
  /// from before the session's step count. Empty: nowhere. Collective. Throws
  /// fsdp::Error on all ranks.
  BestLoss(Session &session, const std::string &folder);

  /// `loss` was found behind `steps` steps. Whether it is the least so far; one
  /// that is no number never is. On rank 0 throws fsdp::Error.
  bool add(uint64_t steps, double loss);

  /// Validations in a row that found nothing better.
  uint64_t countWithoutGain() const;
  /// Null before the first that was a number.
  const Validated *best() const { return findBest(all); }

private:
  const CheckpointFolder folder;
  const bool isWriter;
  std::vector<Validated> all;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_BESTLOSS_H
