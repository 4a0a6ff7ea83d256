//===- AdapterFolder.cpp - Adapters as PEFT keeps them --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/AdapterFolder.h"

#include "support/AdapterNames.h"
#include "support/ModulePath.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

using namespace fsdp;

/// PEFT's own fields are whole where they can be.
static nlohmann::ordered_json toJson(double number) {
  if (number == std::trunc(number) && std::abs(number) < 0x1p53)
    return static_cast<int64_t>(number);
  return number;
}

static const char *nameOf(plan::AdapterBias bias) {
  return plan::EnumNameAdapterBias(bias);
}

std::string fsdp::writeAdapterConfig(const plan::PlanT &plan) {
  const plan::AdapterSettingsT &settings = *plan.adapter_settings;
  std::set<std::string> targets, parameters, saved;
  bool isTurned = false, isWidened = false, hasMagnitudes = false;
  for (const auto &adapter : plan.adapters) {
    const std::string &base = plan.states[adapter->base]->name;
    bool isLayer = !adapter->experts && base.ends_with(".weight");
    (isLayer ? targets : parameters)
        .insert(isLayer ? getModulePath(base) : base);
    isTurned |= isLayer && adapter->base_is_in_by_out &&
                plan.states[adapter->down]->name.ends_with(".weight");
    isWidened |= adapter->first_down >= 0;
    hasMagnitudes |= adapter->magnitude >= 0;
  }
  // What a base lacked at first stands behind its adapter, at the same scale.
  uint32_t rank = settings.rank;
  double alpha = settings.alpha;
  if (isWidened) {
    rank *= 2;
    alpha *= settings.rank_stabilized ? std::sqrt(2.0) : 2;
  }
  for (const auto &state : plan.states) {
    bool isBias = state->name.ends_with(".bias") &&
                  settings.bias != plan::AdapterBias::none;
    if (state->role == plan::Role::parameter && !isOfAdapter(state->name) &&
        !isBias)
      saved.insert(getModulePath(state->name));
  }
  nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                 {"task_type", nullptr},
                                 {"base_model_name_or_path", nullptr},
                                 {"inference_mode", true},
                                 {"r", rank},
                                 {"lora_alpha", toJson(alpha)},
                                 {"lora_dropout", settings.dropout},
                                 {"use_rslora", settings.rank_stabilized},
                                 {"use_dora", hasMagnitudes},
                                 {"bias", nameOf(settings.bias)},
                                 {"fan_in_fan_out", isTurned},
                                 {"init_lora_weights", true},
                                 {"target_modules", targets},
                                 {"target_parameters", nullptr},
                                 {"modules_to_save", nullptr}};
  if (!parameters.empty())
    json["target_parameters"] = parameters;
  if (!saved.empty())
    json["modules_to_save"] = saved;
  return json.dump(2) + "\n";
}
