//===- Adapters.cpp - Low-rank matrices beside a model's own --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/Adapters.h"
#include "ir/capture/joint/AdaptedOperators.h"
#include "support/AdapterNames.h"
#include "support/Error.h"
#include "support/ModulePath.h"
#include "support/Pattern.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>
#include <string_view>

using namespace fsdp;
using namespace fsdp::capture;

using Stack = std::vector<c10::IValue>;

static constexpr AdaptedOperator kOperators[] = {
    {"aten::linear", LayerKind::Linear, "input", "weight", "bias"},
    {"aten::addmm", LayerKind::Turned, "mat1", "mat2", "self"},
    {"aten::embedding", LayerKind::Embedding, "", "weight", ""},
    {"aten::conv1d", LayerKind::Convolution, "input", "weight", "bias"},
    {"aten::conv2d", LayerKind::Convolution, "input", "weight", "bias"},
    {"aten::conv3d", LayerKind::Convolution, "input", "weight", "bias"},
    {"aten::_convolution", LayerKind::Convolution, "input", "weight", "bias"},
};

const AdaptedOperator *
fsdp::capture::findAdaptedOperator(const c10::OperatorHandle &op) {
  const auto *found =
      std::ranges::find(kOperators, std::string_view(op.operator_name().name),
                        &AdaptedOperator::name);
  return found == std::end(kOperators) ? nullptr : found;
}

c10::IValue *fsdp::capture::findArgument(const c10::OperatorHandle &op,
                                         Stack &stack, std::string_view name) {
  const std::vector<c10::Argument> &arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == name)
      return &stack[stack.size() - arguments.size() + i];
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static std::string getLast(const std::string &path) {
  return path.substr(path.rfind('.') + 1);
}

bool fsdp::capture::matchesPath(const std::vector<std::string> &patterns,
                                const std::string &path) {
  return std::ranges::any_of(patterns, [&](const std::string &pattern) {
    if (pattern.starts_with(kRegexPrefix))
      return std::regex_match(path,
                              std::regex(pattern.substr(kRegexPrefix.size())));
    bool isName = pattern.find_first_of(".*?[") == std::string::npos;
    return isName ? pattern == getLast(path) : matchesPattern(pattern, path);
  });
}

/// Whether a module around the path is meant.
static bool matchesAround(const std::vector<std::string> &patterns,
                          std::string path) {
  for (path = getModulePath(path); !path.empty(); path = getModulePath(path))
    if (matchesPath(patterns, path))
      return true;
  return false;
}

static std::string quote(const State &state) {
  return "'" + state.names.front() + "'";
}

//===----------------------------------------------------------------------===//
// Which layers
//===----------------------------------------------------------------------===//

static const std::string *findAdapterName(const State &state) {
  auto found = std::ranges::find_if(
      state.names, [](const std::string &name) { return isOfAdapter(name); });
  return found == state.names.end() ? nullptr : &*found;
}

bool fsdp::capture::hasOwnAdapters(const JointGraph &graph) {
  return std::ranges::any_of(graph.states, [](const State &state) {
    return findAdapterName(state) != nullptr;
  });
}

Adapters::Adapters(const AdapterRequest &wanted, AdapterHost owner)
    : request(wanted), host(std::move(owner)) {
  if (!request.obstacle.empty())
    throw Error(ErrorId::ConfigNotSupported, request.obstacle);
  for (size_t i = 0; i < host.graph.states.size(); ++i) {
    const State &state = host.graph.states[i];
    stateOf[host.stateTensors[i].unsafeGetTensorImpl()] = i;
    if (const std::string *name = findAdapterName(state))
      throw Error(ErrorId::ConfigNotSupported,
                  "'adapter' of the config gives a model adapters that has "
                  "some already, '" +
                      *name +
                      "': leave the key out to train those, or export the "
                      "model without them");
  }
  freeze();
  findStacked();
}

void Adapters::freeze() {
  for (State &state : host.graph.states) {
    if (state.role != StateRole::Parameter)
      continue;
    bool isTrained =
        std::ranges::any_of(state.names, [&](const std::string &name) {
          return matchesPath(request.alsoTrain, name) ||
                 matchesPath(request.alsoTrain, getModulePath(name)) ||
                 matchesAround(request.alsoTrain, getModulePath(name)) ||
                 (request.bias == TrainedBias::All && getLast(name) == "bias");
        });
    if (!isTrained)
      state.role = StateRole::Frozen;
  }
}

/// As PEFT's "all-linear", which leaves out what computes the output: as many
/// numbers as the model has tokens, or of a name that says so.
bool Adapters::isOfOutput(const State &state, const AdaptedOperator &op) const {
  int64_t width = state.type.sizes[op.kind == LayerKind::Turned ? 1 : 0];
  static constexpr std::string_view kNames[] = {"lm_head", "embed_out", "score",
                                                "classifier"};
  return width == vocabulary ||
         std::ranges::any_of(state.names, [&](const std::string &name) {
           return std::ranges::find(kNames, getLast(getModulePath(name))) !=
                  std::end(kNames);
         });
}

/// Whether one of the patterns is the layer's own.
bool Adapters::isNamed(const State &state) const {
  return std::ranges::any_of(state.names, [&](const std::string &name) {
    return matchesPath(request.modules, getModulePath(name)) &&
           !matchesPath(request.skip, getModulePath(name)) &&
           !matchesAround(request.skip, getModulePath(name));
  });
}

/// The first number in a path is that of a module in a list of them.
bool Adapters::isInLayers(const State &state) const {
  if (request.layers.empty())
    return true;
  std::istringstream parts(getModulePath(state.names.front()));
  for (std::string part; std::getline(parts, part, '.');)
    if (!part.empty() && std::ranges::all_of(part, [](unsigned char each) {
          return std::isdigit(each);
        }))
      return std::ranges::find(request.layers, std::stoll(part)) !=
             request.layers.end();
  return false;
}

bool Adapters::isChosen(const State &state, const AdaptedOperator &op) const {
  if (state.role != StateRole::Frozen ||
      !at::isFloatingType(state.type.dtype) || !isInLayers(state))
    return false;
  if (isNamed(state))
    return true;
  bool isLinear = op.kind == LayerKind::Linear || op.kind == LayerKind::Turned;
  return isLinear &&
         std::ranges::any_of(state.names, [&](const std::string &name) {
           std::string path = getModulePath(name);
           if (matchesPath(request.skip, path) ||
               matchesAround(request.skip, path))
             return false;
           return request.modules.empty()
                      ? !isOfOutput(state, op)
                      : matchesAround(request.modules, path);
         });
}

std::optional<size_t> Adapters::findState(const c10::IValue &value) const {
  if (!value.isTensor() || !value.toTensor().defined())
    return std::nullopt;
  auto found = stateOf.find(value.toTensor().unsafeGetTensorImpl());
  return found == stateOf.end() ? std::nullopt : std::optional(found->second);
}

void Adapters::noteReads(const c10::OperatorHandle &op, const Stack &stack) {
  size_t count = op.schema().arguments().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i)
    if (std::optional<size_t> state = findState(stack[i]))
      otherReads.try_emplace(*state, getOperatorName(op));
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

void Adapters::finish() {
  const std::vector<State> &states = host.graph.states;
  if (layers.empty() && stacked.empty())
    throw Error(ErrorId::ConfigBadValue,
                "'adapter': none of the model's layers is meant by modules, "
                "which names linear layers, embeddings or convolutions, or "
                "modules around linear layers; --explain lists its modules");
  for (const auto &[index, each] : stacked)
    if (!each.sum.defined())
      throw Error(ErrorId::ConfigNotSupported,
                  "'adapter': parameters means " + quote(states[index]) +
                      ", which no operator reads; leave it out");
  for (size_t i = 0; i < states.size(); ++i) {
    const State &state = states[i];
    bool isMatrix = state.role == StateRole::Frozen &&
                    state.type.sizes.size() > 1 &&
                    getLast(state.names.front()) == "weight";
    auto read = otherReads.find(i);
    if (isMatrix && isNamed(state) && isInLayers(state) && !layers.contains(i))
      throw Error(
          ErrorId::ConfigNotSupported,
          "'adapter' means " + quote(state) + ", which " +
              (read == otherReads.end() ? "no operator reads as it is"
                                        : read->second + " reads") +
              ": there are adapters for linear layers, embeddings and "
              "convolutions as torch.nn computes them; leave it out with "
              "skip_modules");
    if (layers.contains(i) && read != otherReads.end())
      throw Error(ErrorId::ConfigNotSupported,
                  "'adapter' means " + quote(state) + ", which " +
                      read->second +
                      " reads as well: an adapter would not be in what that "
                      "computes; leave it out with skip_modules");
  }
}
