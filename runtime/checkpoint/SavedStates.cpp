//===- SavedStates.cpp - What of a plan a checkpoint holds ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/checkpoint/SavedStates.h"

#include "plan/Programs.h"
#include "plan/Quantized.h"
#include "support/Error.h"

#include <algorithm>
#include <set>

using namespace fsdp;

/// States that the first of a step's micro-batches gives a value to.
static std::set<int32_t> writtenFirst(const plan::PlanT &plan) {
  std::set<int32_t> states;
  for (const auto &program : plan.programs)
    if (getEntry(*program) == kStepParts[0])
      for (const auto &binding : program->results)
        if (binding->state >= 0)
          states.insert(binding->state);
  return states;
}

static std::string nameOf(const plan::PlanT &plan, const plan::StateT &state) {
  std::string name = state.name;
  // No reader takes codes for numbers.
  if (state.quantized)
    return name + "." + getName(toBlockForm(*state.quantized));
  if (state.role == plan::Role::optimizer && state.of >= 0) {
    const std::string &of = plan.states[state.of]->name;
    if (name.starts_with(of + "/"))
      return "optimizer." + name.substr(of.size() + 1) + "." + of;
  }
  if (!isOfModel(state.role))
    std::ranges::replace(name, '/', '.');
  return name;
}

bool fsdp::isOfModel(plan::Role role) {
  return role == plan::Role::parameter || role == plan::Role::frozen ||
         role == plan::Role::buffer;
}

std::vector<SavedState> fsdp::savedStates(const plan::PlanT &plan) {
  std::set<int32_t> first = writtenFirst(plan);
  std::vector<SavedState> saved;
  std::set<std::string> names;
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::StateT &state = *plan.states[i];
    bool isSum = state.role == plan::Role::scalar;
    // A number that the first micro-batch begins anew is a sum over a step.
    bool isAnew = isSum && first.contains(static_cast<int32_t>(i));
    bool lives =
        isOfModel(state.role) || isSum || state.role == plan::Role::step ||
        state.role == plan::Role::loss_scale ||
        state.role == plan::Role::loss_growth ||
        state.role == plan::Role::optimizer || state.role == plan::Role::random;
    if (!lives || isAnew || state.layout == plan::Layout::flat)
      continue;
    saved.push_back({&state, nameOf(plan, state)});
    if (!names.insert(saved.back().name).second)
      throw Error(ErrorId::RuntimeUnsupported,
                  "two states of the artifact would have the name '" +
                      saved.back().name +
                      "' in a checkpoint; rename the module of that name");
  }
  return saved;
}

size_t fsdp::copyOf(const std::vector<int> &holders, int rank) {
  return static_cast<size_t>(std::ranges::find(holders, rank) -
                             holders.begin());
}

std::string fsdp::nameOfCopy(const std::string &name, size_t copy) {
  return copy == 0 ? name : name + "@rank" + std::to_string(copy);
}
