//===- SavedStates.h - What of a plan a checkpoint holds --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CHECKPOINT_SAVEDSTATES_H
#define FSDP_RUNTIME_CHECKPOINT_SAVEDSTATES_H

#include "plan/plan_generated.h"

#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// A state and its name in checkpoints: a parameter's or buffer's module path,
/// "optimizer.exp_avg.PARAMETER", "optimizer.step", "random.state".
struct SavedState {
  const plan::StateT *state;
  std::string name;
};

/// All states that live on from step to step, in the plan's order: parameters,
/// frozen ones, buffers, the optimizer's and random states. The rest is
/// computed anew: constants, learning rates, sums over micro-batches. The
/// members of a flat state are saved, it is not. Throws fsdp::Error
/// (RuntimeUnsupported) if two have the same name.
std::vector<SavedState> savedStates(const plan::PlanT &plan);

/// Whether such states belong to the model, rather than to its training.
bool isOfModel(plan::Role role);

/// "NAME@rank3": of a state that differs between ranks, what a rank other than
/// 0 has.
std::string nameOfRank(const std::string &name, int rank);

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_SAVEDSTATES_H
