//===- RegionCalls.cpp - Runs sub-graphs of an exported graph -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/Autocast.h"
#include "ir/capture/meta/TargetScope.h"
#include "ir/capture/pt2/Interpreter.h"
#include "ir/capture/pt2/Metadata.h"

#include "llvm/ADT/STLExtras.h"

#include <ATen/core/grad_mode.h>

using namespace fsdp;
using namespace fsdp::capture;

/// Which of the region's graphs runs.
static const json::Object &chooseGraph(const Pt2Region &region,
                                       const Pt2Interpreter &interpreter) {
  if (region.kind != Pt2Region::Kind::Branch)
    return *region.graphs[0];
  c10::IValue condition = interpreter.evaluate(*region.settings[0]);
  if (!condition.isBool())
    json::fail("true or false as the condition of a branch");
  return *region.graphs[condition.toBool() ? 0 : 1];
}

static c10::DeviceType getTargetDevice() {
  return meta::getTarget().device == Target::Device::Cuda ? c10::kCUDA
                                                          : c10::kCPU;
}

void Pt2Interpreter::callRegion(const Pt2Region &region,
                                const json::Object &node) {
  if (region.kind == Pt2Region::Kind::Attention)
    return callFlexAttention(region, node);
  std::vector<c10::IValue> operands;
  for (const json::Value *operand : region.operands) {
    c10::IValue value = evaluate(*operand);
    if (value.isList())
      for (const c10::IValue &element : value.toListRef())
        operands.push_back(element);
    else
      operands.push_back(std::move(value));
  }
  const json::Object &graph = chooseGraph(region, *this);
  const json::Array &parameters = json::getArray(graph, "inputs");
  if (parameters.size() != operands.size())
    json::fail("one argument for each input of a region");
  Pt2Interpreter inner(device, recorder);
  inner.setExportDevice(exportDevice);
  inner.setBackwards(backwards);
  inner.setParamDtype(paramDtype);
  inner.setNorms(notedNorms);
  inner.masks = masks;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (std::string name = getPt2ValueName(parameters[i]); !name.empty())
      inner.bind(name, operands[i]);

  std::optional<at::AutoGradMode> gradients;
  if (region.kind == Pt2Region::Kind::Grad)
    gradients.emplace(evaluate(*region.settings.at(0)).toBool());
  std::optional<AutocastScope> autocast;
  if (region.kind == Pt2Region::Kind::Autocast) {
    Pt2Autocast rules = readPt2Autocast(region);
    if (exportDevice == c10::kMeta || exportDevice == rules.device ||
        getTargetDevice() == rules.device)
      autocast.emplace(rules.device, rules.dtype, rules.enabled);
  }
  inner.run(graph);
  std::vector<c10::IValue> results;
  for (const json::Value &output : json::getArray(graph, "outputs"))
    results.push_back(inner.evaluate(output));
  bindOutputs(node, results);
}

/// Adds the names of values among these, in whatever lists.
static void addNames(const json::Value &value,
                     std::unordered_set<std::string> &names) {
  if (const json::Object *object = json::toObject(value)) {
    for (const auto &[key, inner] : *object)
      if (std::optional<llvm::StringRef> name = json::toString(inner);
          name && (key == "name" || key == "as_name"))
        names.insert(name->str());
      else if (key != "graph")
        addNames(inner, names);
  } else if (const json::Array *array = json::toArray(value)) {
    for (const json::Value &inner : *array)
      addNames(inner, names);
  }
}

/// Whether the node does more than to make its results.
static bool hasEffect(const json::Object &node) {
  Pt2Target target = resolvePt2Target(node);
  return target.op && target.op->schema().is_mutable();
}

bool Pt2Interpreter::isNeeded(const std::string &name) {
  if (neededIn != running) {
    needed.clear();
    neededIn = running;
    addNames(json::get(*running, "outputs"), needed);
    const json::Array &nodes = json::getArray(*running, "nodes");
    for (const json::Value &value : llvm::reverse(nodes)) {
      const json::Object &node = json::asObject(value);
      std::unordered_set<std::string> results;
      addNames(json::get(node, "outputs"), results);
      if (hasEffect(node) ||
          llvm::any_of(results, [&](const std::string &result) {
            return needed.contains(result);
          }))
        addNames(json::get(node, "inputs"), needed);
    }
  }
  return needed.contains(name);
}
