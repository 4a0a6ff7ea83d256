//===- UpdateRules.h - What optimizers compute ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_OPTIMIZE_UPDATERULES_H
#define FSDP_RUNTIME_OPTIMIZE_UPDATERULES_H

#include "runtime/optimize/BlockStorage.h"
#include "runtime/optimize/ElementUpdates.h"

namespace fsdp {

/// What does not change from step to step.
struct UpdateRule {
  OptimizerKind kind;
  OptimizerNumbers numbers;
};

RuleNumbers getNumbers(const UpdateRule &rule);

/// The arithmetic of one kind, on `count` elements of a block.
struct UpdateArithmetic {
  /// Divides the gradients by the scale and sets the new moments.
  void (*moments)(const Coefficients &, int count, Block &);
  /// Sets the new parameters, behind `moments`.
  void (*param)(const Coefficients &, int count, Block &);
};
const UpdateArithmetic &getArithmetic(OptimizerKind kind);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPTIMIZE_UPDATERULES_H
