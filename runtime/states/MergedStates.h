//===- MergedStates.h - What is left when adapters are merged ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_MERGEDSTATES_H
#define FSDP_RUNTIME_STATES_MERGEDSTATES_H

#include "plan/plan_generated.h"

#include <cstddef>
#include <string>
#include <vector>

namespace fsdp {

/// Its own name, and those of what is tied to it.
std::vector<std::string> namesOf(const plan::StateT &state);

/// Numbers of the states that an adapter has beside its base, in one order.
std::vector<size_t> statesOf(const plan::AdapterT &adapter);

/// A state as an export writes it.
struct ExportedState {
  size_t state; ///< into PlanT::states
  std::vector<std::string> names;
  const plan::AdapterT *adapter = nullptr; ///< that is added to it
};

/// What is left of a model's exported states when its adapters are merged, by
/// the names that PEFT's `merge_and_unload` gives them: without the components
/// that its wrappers put in. Throws fsdp::Error (RuntimeUnsupported) if there
/// is no adapter, if an adapter's parameter would be left over, or if two
/// states have one name.
std::vector<ExportedState> listMerged(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_MERGEDSTATES_H
