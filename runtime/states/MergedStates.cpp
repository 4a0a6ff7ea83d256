//===- MergedStates.cpp - What is left when adapters are merged -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/MergedStates.h"

#include "runtime/states/Export.h"
#include "support/AdapterNames.h"
#include "support/Error.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

using namespace fsdp;

std::vector<std::string> fsdp::namesOf(const plan::StateT &state) {
  std::vector<std::string> names{state.name};
  names.insert(names.end(), state.aliases.begin(), state.aliases.end());
  return names;
}

std::vector<size_t> fsdp::statesOf(const plan::AdapterT &adapter) {
  std::vector<size_t> states{adapter.down, adapter.up};
  for (int32_t each : {adapter.magnitude, adapter.first_down, adapter.first_up})
    if (each >= 0)
      states.push_back(static_cast<size_t>(each));
  return states;
}

namespace {

using Components = std::vector<std::string>;

Components split(const std::string &name) {
  Components parts(1);
  for (char each : name)
    if (each == '.')
      parts.emplace_back();
    else
      parts.back() += each;
  return parts;
}

std::string join(std::span<const std::string> parts) {
  std::string name;
  for (const std::string &part : parts)
    name += (name.empty() ? "" : ".") + part;
  return name;
}

/// What PEFT's modules around those of a model are called in it.
class WrapperNames {
public:
  explicit WrapperNames(const plan::PlanT &plan) {
    for (const auto &adapter : plan.adapters)
      for (const std::string &name : namesOf(*plan.states[adapter->base]))
        findModel(split(name));
    for (const auto &state : plan.states)
      for (const std::string &name : namesOf(*state)) {
        Components parts = split(name);
        auto at = std::ranges::find(parts, "modules_to_save");
        if (at != parts.end())
          saved.insert(join({parts.begin(), at}));
      }
  }

  /// The name without them; nothing for what a trained copy stands for.
  std::optional<std::string> unwrap(const std::string &name) const {
    Components parts = split(name), left;
    for (size_t i = 0; i < parts.size(); ++i) {
      std::string path = join({parts.begin(), parts.begin() + i});
      if (parts[i] == "base_layer")
        continue;
      if (parts[i] == "original_module" && saved.contains(path))
        return std::nullopt;
      // Followed by "model", or the adapter's name.
      if ((parts[i] == "base_model" && models.contains(path)) ||
          parts[i] == "modules_to_save") {
        ++i;
        continue;
      }
      left.push_back(parts[i]);
    }
    return join(left);
  }

private:
  /// PeftModel.base_model.model is the model that it wraps.
  void findModel(const Components &parts) {
    if (std::ranges::find(parts, "base_layer") == parts.end())
      return;
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      if (parts[i] == "base_model" && parts[i + 1] == "model") {
        models.insert(join({parts.begin(), parts.begin() + i}));
        return;
      }
  }

  std::set<std::string> models; ///< paths of PeftModels
  std::set<std::string> saved;  ///< of modules that are trained as copies
};

} // namespace

std::vector<ExportedState> fsdp::listMerged(const plan::PlanT &plan) {
  if (plan.adapters.empty())
    throw Error(
        ErrorId::RuntimeUnsupported,
        "no adapters can be merged, since the artifact has none; export "
        "the weights as they are. fsdp-opt --remarks-filter=adapters "
        "says why products of trained matrices are no adapters");
  std::map<size_t, const plan::AdapterT *> bases;
  std::set<size_t> merged;
  for (const auto &adapter : plan.adapters) {
    bases[adapter->base] = adapter.get();
    for (size_t index : statesOf(*adapter))
      merged.insert(index);
  }
  WrapperNames wrappers(plan);
  std::vector<ExportedState> all;
  std::map<std::string, std::string> taken;
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::StateT &state = *plan.states[i];
    if (!isExported(state) || merged.contains(i))
      continue;
    ExportedState each{i, {}, bases.contains(i) ? bases[i] : nullptr};
    for (const std::string &name : namesOf(state)) {
      if (isOfAdapter(name))
        throw Error(ErrorId::RuntimeUnsupported,
                    "'" + name +
                        "' cannot be merged: it is in none of the artifact's " +
                        std::to_string(plan.adapters.size()) +
                        " adapters, and no model is written that is merged in "
                        "part; export the weights as they are. fsdp-opt "
                        "--remarks-filter=adapters says why it is in none");
      std::optional<std::string> left = wrappers.unwrap(name);
      if (!left || std::ranges::find(each.names, *left) != each.names.end())
        continue;
      auto [at, isNew] = taken.emplace(*left, name);
      if (!isNew)
        throw Error(ErrorId::RuntimeUnsupported,
                    "both '" + at->second + "' and '" + name +
                        "' would be called '" + *left +
                        "' in a model whose adapters are merged; export the "
                        "weights as they are");
      each.names.push_back(*left);
    }
    if (!each.names.empty())
      all.push_back(std::move(each));
  }
  return all;
}
