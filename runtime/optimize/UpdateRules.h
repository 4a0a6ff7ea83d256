//===- UpdateRules.h - What optimizers compute ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_OPTIMIZE_UPDATERULES_H
#define FSDP_RUNTIME_OPTIMIZE_UPDATERULES_H

#include "runtime/optimize/BlockStorage.h"
#include "support/Optimizers.h"

namespace fsdp {

/// What does not change from step to step.
struct UpdateRule {
  OptimizerKind kind;
  OptimizerNumbers numbers;
};

/// What does.
struct UpdateNumbers {
  double lr = 0;
  double step = 0;     ///< of this update, from 1
  float gradScale = 1; ///< divides the gradients
};

/// The rule's numbers of one step, in the precision of LibTorch's kernels.
struct Coefficients {
  float gradScale, lr;
  float beta1, beta2, eps, momentum, decay;
  float stepSize, rootCorrection; ///< lr and the root, corrected for the step
  bool nesterov, hasMoments;

  Coefficients(const UpdateRule &rule, const UpdateNumbers &numbers);
};

/// The arithmetic of one kind, on `count` elements of a block.
struct UpdateArithmetic {
  /// Divides the gradients by `gradScale` and sets the new moments.
  void (*moments)(const Coefficients &, int count, Block &);
  /// Sets the new parameters, behind `moments`.
  void (*param)(const Coefficients &, int count, Block &);
};
const UpdateArithmetic &getArithmetic(OptimizerKind kind);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPTIMIZE_UPDATERULES_H
