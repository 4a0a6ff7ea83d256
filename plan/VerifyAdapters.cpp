//===- VerifyAdapters.cpp - Whether adapters fit their bases --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/VerifyAdapters.h"

#include "plan/DType.h"
#include "plan/FirstValues.h"
#include "plan/Quantized.h"
#include "plan/Shape.h"
#include "plan/VerifyProgram.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace fsdp;
using plan::PlanT;

namespace {

/// An adapter's states have the roles that are expected of them, and each is in
/// one adapter alone.
void verifyAdapterStates(const PlanT &plan, const plan::AdapterT &adapter,
                         const std::string &where, std::set<int64_t> &known) {
  enum Part { Base, Trained, First };
  std::pair<int64_t, Part> states[] = {
      {adapter.base, Base},        {adapter.down, Trained},
      {adapter.up, Trained},       {adapter.magnitude, Trained},
      {adapter.first_down, First}, {adapter.first_up, First}};
  for (auto [index, part] : states) {
    // The first three are there.
    if (index == -1)
      continue;
    if (index < 0 || index >= static_cast<int64_t>(plan.states.size()))
      refusePlan(where, "names a state that does not exist");
    const plan::StateT &state = *plan.states[index];
    if (!known.insert(index).second)
      refusePlan(where, "names the state '" + state.name + "' again");
    // Those that the compiler put in are there without training, too.
    bool mayBeFrozen = part != Trained || plan.adapter_settings;
    if (!(state.role == plan::Role::frozen && mayBeFrozen) &&
        !(state.role == plan::Role::parameter && part == Trained))
      refusePlan(where, "names the state '" + state.name + "', which is not " +
                            (part == Trained ? "trained" : "frozen"));
    if (part == First && state.quantized)
      refusePlan(where, "began with '" + state.name + "', which is quantized");
    bool isVector = index == adapter.magnitude;
    if (!isFloat(modelDType(state)) ||
        (!isVector && modelShape(plan, state).size() < 2))
      refusePlan(where, "names the state '" + state.name +
                            "', which is no matrix of numbers");
  }
}

/// Of the matrices that an export multiplies and adds up.
void verifyAdapterShapes(const PlanT &plan, const plan::AdapterT &adapter,
                         const std::string &where) {
  auto shapeOf = [&](int64_t index) {
    return modelShape(plan, *plan.states[index]);
  };
  // All states have sizes whose product is known.
  auto asMatrix = [](std::vector<int64_t> shape) {
    for (; shape.size() > 2; shape.pop_back())
      shape[shape.size() - 2] *= shape.back();
    return shape;
  };
  std::vector<int64_t> base = shapeOf(adapter.base);
  auto experts = static_cast<int64_t>(adapter.experts);
  bool fits = true;
  if (experts) {
    fits = base.size() == 3 && base[0] == experts;
    base.erase(base.begin());
  }
  base = asMatrix(std::move(base));
  std::vector<int64_t> down = asMatrix(shapeOf(adapter.down)),
                       up = asMatrix(shapeOf(adapter.up));
  fits &= base.size() == 2;
  if (fits && adapter.base_is_in_by_out)
    std::swap(base[0], base[1]);
  fits = fits && up[0] == base[0] && down[1] == base[1] && up[1] == down[0] &&
         (!experts || up[1] % experts == 0);
  if (adapter.magnitude >= 0)
    fits = fits && !experts &&
           checkedElements(shapeOf(adapter.magnitude)) ==
               static_cast<uint64_t>(up[0]);
  if ((adapter.first_down < 0) != (adapter.first_up < 0))
    fits = false;
  else if (adapter.first_down >= 0)
    fits = fits && shapeOf(adapter.first_down) == shapeOf(adapter.down) &&
           shapeOf(adapter.first_up) == shapeOf(adapter.up);
  if (!fits)
    refusePlan(where, "has matrices that do not fit each other");
}

/// Only an adapter's own states begin with numbers of its base.
void verifyAdapterStarts(const PlanT &plan) {
  using plan::InitKind;
  std::set<std::pair<int64_t, InitKind>> known;
  for (const auto &adapter : plan.adapters) {
    std::string where = "'" + plan.states[adapter->down]->name + "'";
    auto startsAs = [&](int64_t state, InitKind kind) {
      const auto &first = plan.states[state]->initializer;
      bool starts = first && first->kind == kind;
      if (starts)
        known.insert({state, kind});
      return starts;
    };
    bool isTaken = startsAs(adapter->down, InitKind::pissa);
    for (int64_t each : {int64_t(adapter->up), int64_t(adapter->first_down),
                         int64_t(adapter->first_up)})
      if ((each >= 0 && startsAs(each, InitKind::pissa)) != isTaken)
        refusePlan(where, "begins otherwise than what its base lacks");
    if (isTaken && adapter->experts)
      refusePlan(where, "begins with singular vectors of several matrices");
    for (int64_t each : {adapter->down, adapter->up})
      if (startsAs(each, InitKind::loftq) &&
          !plan.states[adapter->base]->quantized)
        refusePlan(where, "begins with what its base loses, which is not "
                          "quantized");
    if (adapter->magnitude >= 0)
      startsAs(adapter->magnitude, InitKind::norms);
  }
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const auto &first = plan.states[i]->initializer;
    if (isOfBase(*plan.states[i]) &&
        !known.contains({static_cast<int64_t>(i), first->kind}))
      refusePlan("'" + plan.states[i]->name + "'",
                 "begins with numbers of a base that it is no adapter of");
  }
}

} // namespace

void fsdp::verifyAdapters(const PlanT &plan) {
  std::set<int64_t> known;
  for (size_t i = 0; i < plan.adapters.size(); ++i) {
    const plan::AdapterT &adapter = *plan.adapters[i];
    std::string where = "adapter " + std::to_string(i);
    verifyAdapterStates(plan, adapter, where, known);
    verifyAdapterShapes(plan, adapter, where);
    if (!std::isfinite(adapter.scale))
      refusePlan(where, "has a scale that is no number");
  }
  verifyAdapterStarts(plan);
  if (!plan.adapter_settings)
    return;
  const plan::AdapterSettingsT &settings = *plan.adapter_settings;
  if (plan.adapters.empty() || settings.bias > plan::AdapterBias::MAX ||
      !std::isfinite(settings.alpha) || !(settings.dropout >= 0) ||
      !(settings.dropout < 1))
    refusePlan("the adapters' settings", "are of no adapters, or are no such "
                                         "settings");
}
