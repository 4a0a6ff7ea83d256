//===- States.h - First values of states and inputs -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_STATES_H
#define FSDP_RUNTIME_STATES_STATES_H

#include "plan/plan_generated.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/Arenas.h"
#include "runtime/states/ModelFile.h"
#include "runtime/states/RecordChecks.h"
#include "runtime/states/WeightReader.h"

#include <functional>

namespace fsdp {

/// Whether any state or input takes its first value from the model file.
bool needsModelFile(const plan::PlanT &plan);

/// Gives every state of `rank` that `isWanted` its part of its first value, but
/// for averages, which begin behind all others (beginAverages, Averages.h);
/// padding is zero, and so is what of flat states is not wanted. `model` may be
/// null if no such state has a source, `weights` if none has a weight. `checks`
/// is told what is read of the model file. With a `fabric` it is collective, as
/// it has to be where needsAdapterStarts. Throws fsdp::Error.
void loadStates(
    const plan::PlanT &plan, int rank, const Arenas &arenas,
    const ModelFile *model, const WeightReader *weights,
    const std::function<bool(const plan::StateT &)> &isWanted =
        [](const plan::StateT &) { return true; },
    RecordChecks *checks = nullptr, Fabric *fabric = nullptr);

/// Lets random sequences begin at `seed` in place of the artifact's.
void setSeed(const plan::PlanT &plan, const Arenas &arenas, uint64_t seed);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_STATES_H
