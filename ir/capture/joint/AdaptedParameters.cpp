//===- AdaptedParameters.cpp - Parameters of several matrices -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A parameter that is no layer's, such as all experts' matrices in one tensor,
// is adapted where it is read: whoever reads it gets the sum.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/joint/Adapters.h"
#include "support/Error.h"
#include "support/ModulePath.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>

#include <algorithm>
#include <cmath>

using namespace fsdp;
using namespace fsdp::capture;

/// Classes of modules whose parameters of experts are [experts, in, out]:
/// transformers' `is_transposed`.
static constexpr std::string_view kTurned[] = {"GptOssExperts",
                                               "OpenAIPrivacyFilterExperts"};

/// A pattern of parameters means names that end with it, as PEFT's
/// `target_parameters`.
static bool isMeant(const std::vector<std::string> &patterns,
                    const std::string &name) {
  return matchesPath(patterns, name) ||
         std::ranges::any_of(patterns, [&](const std::string &pattern) {
           return name.ends_with("." + pattern);
         });
}

void Adapters::findStacked() {
  // By module, in the order in which PEFT wraps them: the first one innermost.
  std::map<std::string, std::vector<size_t>> modules;
  for (size_t i = 0; i < host.graph.states.size(); ++i) {
    const State &state = host.graph.states[i];
    const std::string &name = state.names.front();
    if (request.parameters.empty() || !isMeant(request.parameters, name) ||
        state.role != StateRole::Frozen || !isInLayers(state))
      continue;
    size_t dims = state.type.sizes.size();
    if (dims < 2 || dims > 3 || !at::isFloatingType(state.type.dtype) ||
        state.names.size() > 1)
      throw Error(ErrorId::ConfigNotSupported,
                  "'adapter': parameters means '" + name +
                      "', which is not one matrix, or one of each of several "
                      "experts, or is tied; leave it out");
    modules[getModulePath(name)].push_back(i);
  }
  for (const auto &[path, states] : modules)
    for (size_t i = 0; i < states.size(); ++i) {
      Stacked each;
      each.path = path;
      for (size_t inner = i + 1; inner < states.size(); ++inner)
        each.path += ".base_layer";
      for (const ModuleInfo &module : host.graph.modules)
        each.isTurned |=
            module.path == path &&
            std::ranges::find(kTurned, module.className) != std::end(kTurned);
      stacked.emplace(states[i], std::move(each));
    }
  if (!request.parameters.empty() && stacked.empty())
    throw Error(ErrorId::ConfigBadValue,
                "'adapter': parameters means no frozen parameter of the model; "
                "it names parameters such as \"mlp.experts.down_proj\"");
}

/// The parameter with what is added to it: computed once in a step.
const at::Tensor &Adapters::getSum(size_t index) {
  Stacked &each = stacked.at(index);
  if (each.sum.defined())
    return each.sum;
  // A copy: more states are declared.
  const State base = host.graph.states[index];
  const std::vector<int64_t> &sizes = base.type.sizes;
  bool isStack = sizes.size() == 3, isTurned = isStack && each.isTurned;
  int64_t experts = isStack ? sizes[0] : 1, rank = request.rank;
  int64_t out = sizes[sizes.size() - 2], in = sizes.back();
  if (isTurned)
    std::swap(out, in);
  double bound = in ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  using Kind = FirstValue::Kind;
  FirstValue first{Kind::Uniform, -bound, bound};
  if (request.init == AdapterInit::Gaussian)
    first = {Kind::Normal, 0, 1 / static_cast<double>(rank)};
  AdapterRow row;
  row.base = base.names.front();
  row.down = each.path + ".lora_A.weight";
  row.up = each.path + ".lora_B.weight";
  row.isTurned = isTurned;
  row.experts = isStack ? experts : 0;
  at::Tensor down = declare(row.down, base, {experts * rank, in}, first);
  at::Tensor up = declare(row.up, base, {out, rank * experts}, {Kind::Zero});
  host.graph.adapters->layers.push_back(std::move(row));

  at::Tensor weight = host.stateTensors[index];
  down = down.to(weight.scalar_type());
  up = up.to(weight.scalar_type());
  double scale = request.getScale();
  if (!isStack)
    return each.sum = at::addmm(weight, up, down, 1, scale);
  down = down.view({experts, rank, in});
  up = up.view({out, rank, experts}).permute({2, 0, 1});
  return each.sum = isTurned ? at::baddbmm(weight, down.transpose(1, 2),
                                           up.transpose(1, 2), 1, scale)
                             : at::baddbmm(weight, up, down, 1, scale);
}

void Adapters::replaceStacked(const c10::OperatorHandle &op,
                              std::vector<c10::IValue> &stack) {
  for (size_t i = stack.size() - op.schema().arguments().size();
       i < stack.size(); ++i) {
    if (std::optional<size_t> state = findState(stack[i]);
        state && stacked.contains(*state)) {
      stack[i] = getSum(*state);
      continue;
    }
    if (!stack[i].isTensorList())
      continue;
    c10::List<at::Tensor> list = stack[i].toTensorList().copy();
    for (size_t at = 0; at < list.size(); ++at)
      if (std::optional<size_t> state = findState(list.get(at));
          state && stacked.contains(*state))
        list.set(at, getSum(*state));
    stack[i] = list;
  }
}
