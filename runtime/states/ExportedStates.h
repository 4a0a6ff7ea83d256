//===- ExportedStates.h - States that an export has -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_EXPORTEDSTATES_H
#define FSDP_RUNTIME_STATES_EXPORTEDSTATES_H

#include "plan/plan_generated.h"
#include "runtime/states/Exported.h"
#include "runtime/states/MergedStates.h"

#include <string>
#include <vector>

namespace fsdp {

/// Whether exports have the state: parameters, frozen ones, and buffers that
/// are not volatile.
bool isExported(const plan::StateT &state);

/// Of which `without` has no patterns that mean all of its names: a model may
/// hold another one, as the teacher of a distillation. Throws what listMerged
/// does.
std::vector<ExportedState>
listExported(const plan::PlanT &plan, Exported what,
             const std::vector<std::string> &without);

/// Throws fsdp::Error (BadUsage) for a pattern that no exported state's name
/// matches.
void checkLeftOut(const plan::PlanT &plan,
                  const std::vector<std::string> &without);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_EXPORTEDSTATES_H
