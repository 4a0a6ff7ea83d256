//===- ExportedStates.cpp - What of a model an export has -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/ExportedStates.h"

#include "support/Error.h"
#include "support/Nearest.h"
#include "support/Pattern.h"

#include <algorithm>
#include <iterator>
#include <string_view>

using namespace fsdp;

/// The members of a flat state are, it is not.
bool fsdp::isExported(const plan::StateT &state) {
  if (state.layout == plan::Layout::flat)
    return false;
  return state.role == plan::Role::parameter ||
         state.role == plan::Role::frozen ||
         (state.role == plan::Role::buffer && !state.volatile_);
}

static std::vector<ExportedState> listWhole(const plan::PlanT &plan,
                                            Exported what) {
  // Adapters that the config asked for are no part of the user's model.
  if (what == Exported::Merged ||
      (what != Exported::Trained && plan.adapter_settings))
    return listMerged(plan);
  std::vector<ExportedState> all;
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::StateT &state = *plan.states[i];
    if (!isExported(state) ||
        (what == Exported::Trained && state.role != plan::Role::parameter))
      continue;
    all.push_back({i, namesOf(state)});
  }
  return all;
}

static bool isLeftOut(const std::vector<std::string> &names,
                      const std::vector<std::string> &without) {
  return std::ranges::all_of(names, [&](const std::string &name) {
    return std::ranges::any_of(without, [&](const std::string &pattern) {
      return matchesPattern(pattern, name);
    });
  });
}

std::vector<ExportedState>
fsdp::listExported(const plan::PlanT &plan, Exported what,
                   const std::vector<std::string> &without) {
  std::vector<ExportedState> all = listWhole(plan, what);
  std::erase_if(all, [&](const ExportedState &each) {
    return isLeftOut(each.names, without);
  });
  return all;
}

void fsdp::checkLeftOut(const plan::PlanT &plan,
                        const std::vector<std::string> &without) {
  std::vector<std::string> all;
  for (const auto &state : plan.states)
    if (isExported(*state))
      std::ranges::copy(namesOf(*state), std::back_inserter(all));
  for (const std::string &pattern : without)
    if (std::ranges::none_of(all, [&](const std::string &name) {
          return matchesPattern(pattern, name);
        })) {
      std::vector<std::string_view> names(all.begin(), all.end());
      std::string_view nearest = findNearest(pattern, names);
      throw Error(ErrorId::BadUsage,
                  "--export-without: '" + pattern +
                      "' matches no state that is exported" +
                      (nearest.empty()
                           ? ""
                           : "; did you mean '" + std::string(nearest) + "'?"));
    }
}
