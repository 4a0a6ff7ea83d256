//===- States.h - First values of states and inputs -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_STATES_H
#define FSDP_RUNTIME_STATES_STATES_H

#include "plan/plan_generated.h"
#include "runtime/device/Arenas.h"
#include "runtime/states/ModelFile.h"
#include "runtime/states/RecordChecks.h"
#include "runtime/states/WeightReader.h"

#include <functional>

namespace fsdp {

/// Rows of a state that one rank holds: of the dim that it is cut along, in
/// each of `outer` runs that the dims in front of it make.
struct OwnRows {
  int64_t outer = 1;
  int64_t all = 0;   ///< rows of the unsharded tensor
  int64_t first = 0; ///< first one's number there
  int64_t count = 0; ///< real rows
  int64_t room = 0;  ///< with padding
  uint64_t rowBytes = 0;
};

/// A replicated state is one that a single rank holds all of; a tensor without
/// dims is one row.
OwnRows ownRows(const plan::PlanT &plan, const plan::StateT &state, int rank);

/// Elements of a member of a flat state that lie in some of the flat state's.
struct Overlap {
  uint64_t first = 0; ///< first one's number in the member
  uint64_t count = 0;
  uint64_t at = 0; ///< its number among the flat state's that were asked about
};

/// Those in elements [first, first + count) of the unsharded flat state.
Overlap overlapOf(const plan::StateT &member, uint64_t first, uint64_t count);

/// Elements of a flat state that each rank holds.
uint64_t flatPart(const plan::PlanT &plan, const plan::StateT &flat);

/// Whether any state or input takes its first value from the model file.
bool needsModelFile(const plan::PlanT &plan);

/// Gives every state of `rank` that `isWanted` its first value; padding is
/// zero, and so is what of flat states is not wanted. `model` may be null if no
/// such state has a source, `weights` if none has a weight. `checks` is told
/// what is read of the model file. Throws fsdp::Error.
void loadStates(
    const plan::PlanT &plan, int rank, const Arenas &arenas,
    const ModelFile *model, const WeightReader *weights,
    const std::function<bool(const plan::StateT &)> &isWanted =
        [](const plan::StateT &) { return true; },
    RecordChecks *checks = nullptr);

/// Lets random sequences begin at `seed` in place of the artifact's.
void setSeed(const plan::PlanT &plan, const Arenas &arenas, uint64_t seed);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_STATES_H
