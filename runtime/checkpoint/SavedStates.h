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
/// "optimizer.exp_avg.PARAMETER", "optimizer.step", "random.state"; of a
/// quantized one "PARAMETER.nf4", by the name of its form.
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

/// The place of `rank` among those that hold the same elements of a state, all
/// of whose first are copy 0, and so on: each copy is a whole tensor.
size_t copyOf(const std::vector<int> &holders, int rank);

/// "NAME@rank3": of a state that differs between the ranks that hold it, a copy
/// other than the first. If it is not split, each rank has one of its own.
std::string nameOfCopy(const std::string &name, size_t copy);

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_SAVEDSTATES_H
