//===- Adapters.cpp - Low-rank matrices beside a model's own --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/Adapters.h"
#include "support/AdapterNames.h"
#include "support/Error.h"
#include "support/ModulePath.h"
#include "support/Pattern.h"

#include <ATen/ops/convolution.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <regex>
#include <string_view>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

using Stack = std::vector<c10::IValue>;

enum class LayerKind {
  Linear,      ///< [out, in]
  Turned,      ///< [in, out], as transformers' Conv1D
  Embedding,   ///< [rows, width]
  Convolution, ///< [out, in, …]
};

} // namespace

/// An operator that computes a layer.
struct fsdp::capture::AdaptedOperator {
  std::string_view name;
  LayerKind kind;
  std::string_view input; ///< what dropout is applied to; empty: nothing
  std::string_view weight, bias;
};

static constexpr AdaptedOperator kOperators[] = {
    {"aten::linear", LayerKind::Linear, "input", "weight", "bias"},
    {"aten::addmm", LayerKind::Turned, "mat1", "mat2", "self"},
    {"aten::embedding", LayerKind::Embedding, "", "weight", ""},
    {"aten::conv1d", LayerKind::Convolution, "input", "weight", "bias"},
    {"aten::conv2d", LayerKind::Convolution, "input", "weight", "bias"},
    {"aten::conv3d", LayerKind::Convolution, "input", "weight", "bias"},
    {"aten::_convolution", LayerKind::Convolution, "input", "weight", "bias"},
};

static const AdaptedOperator *findOperator(const c10::OperatorHandle &op) {
  const auto *found =
      std::ranges::find(kOperators, std::string_view(op.operator_name().name),
                        &AdaptedOperator::name);
  return found == std::end(kOperators) ? nullptr : found;
}

/// The call's argument; null if the operator has none of that name.
static c10::IValue *findArgument(const c10::OperatorHandle &op, Stack &stack,
                                 std::string_view name) {
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

static bool matchesPath(const std::vector<std::string> &patterns,
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

bool Adapters::isChosen(const State &state, const AdaptedOperator &op) const {
  if (state.role != StateRole::Frozen || !at::isFloatingType(state.type.dtype))
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
// What is computed
//===----------------------------------------------------------------------===//

at::Tensor Adapters::declare(const std::string &name, const State &base,
                             std::vector<int64_t> sizes, FirstValue first) {
  State state;
  state.names = {name};
  // As PEFT: adapters of models in few bits are float32.
  c10::ScalarType dtype = base.type.dtype;
  if (c10::elementSize(dtype) < 4)
    dtype = c10::kFloat;
  state.type = TensorType::contiguous(dtype, std::move(sizes));
  state.first = first;
  return host.declare(std::move(state));
}

const Adapters::Layer &Adapters::getLayer(size_t index,
                                          const AdaptedOperator &op) {
  auto [at, isNew] = layers.try_emplace(index);
  Layer &layer = at->second;
  if (!isNew)
    return layer;
  // A copy: more states are declared.
  const State base = host.graph.states[index];
  if (base.names.size() > 1)
    throw Error(ErrorId::ConfigNotSupported,
                "'adapter' means " + quote(base) + ", which is also '" +
                    base.names[1] +
                    "' of the model: what is added to the one would not be "
                    "added to the other; leave it out with skip_modules, or "
                    "train it with also_train");
  layer.path = getModulePath(base.names.front());
  layer.op = &op;
  bool isEmbedding = op.kind == LayerKind::Embedding;
  const std::string prefix =
      layer.path + (isEmbedding ? ".lora_embedding_" : ".lora_");
  const std::string suffix = isEmbedding ? "" : ".weight";
  std::vector<int64_t> down = base.type.sizes, up = down;
  int64_t rank = request.rank, out = down[0];
  if (op.kind == LayerKind::Turned || isEmbedding)
    std::swap(down[0], down[1]);
  out = down[0];
  down[0] = rank;
  up.assign(down.size(), 1);
  up[0] = out;
  up[1] = rank;
  int64_t fan = 1;
  for (size_t i = 1; i < down.size(); ++i)
    fan *= down[i];
  double bound = fan ? 1 / std::sqrt(static_cast<double>(fan)) : 0;
  FirstValue random{FirstValue::Kind::Uniform, -bound, bound};
  if (request.init == AdapterInit::Gaussian)
    random = {FirstValue::Kind::Normal, 0, 1 / static_cast<double>(rank)};
  FirstValue zero{FirstValue::Kind::Zero};
  // PEFT begins embeddings the other way round.
  if (isEmbedding)
    random = {FirstValue::Kind::Normal, 0, 1};
  layer.down =
      declare(prefix + "A" + suffix, base, down, isEmbedding ? zero : random);
  layer.up =
      declare(prefix + "B" + suffix, base, up, isEmbedding ? random : zero);
  if (request.bias == TrainedBias::LoraOnly)
    for (size_t i = 0; i < host.graph.states.size(); ++i)
      if (host.graph.states[i].names.front() == layer.path + ".bias")
        host.train(i);
  host.graph.adapters->layers.push_back(
      {base.names.front(), prefix + "A" + suffix, prefix + "B" + suffix,
       op.kind == LayerKind::Turned || isEmbedding});
  return layer;
}

/// The layer itself is called with what is put in its matrix's place.
static at::Tensor callWith(const c10::OperatorHandle &op,
                           const AdaptedOperator &known, Stack stack,
                           const at::Tensor &weight) {
  *findArgument(op, stack, known.weight) = weight;
  if (c10::IValue *bias = findArgument(op, stack, known.bias))
    *bias = c10::IValue();
  op.callBoxed(stack);
  return stack.back().toTensor();
}

/// A convolution of single points.
static at::Tensor mixChannels(const at::Tensor &input, const at::Tensor &up) {
  std::vector<int64_t> ones(up.dim() - 2, 1), zeros(up.dim() - 2, 0);
  return at::convolution(input, up, {}, ones, zeros, ones,
                         /*transposed=*/false, zeros, /*groups=*/1);
}

/// Of convolutions, only those that a matrix of channels can be merged into.
static void checkConvolution(const c10::OperatorHandle &op, Stack &stack,
                             const std::string &path) {
  c10::IValue *groups = findArgument(op, stack, "groups");
  c10::IValue *transposed = findArgument(op, stack, "transposed");
  if ((groups && groups->toInt() != 1) || (transposed && transposed->toBool()))
    throw Error(ErrorId::ConfigNotSupported,
                "'adapter' means '" + path +
                    "', a convolution in groups or a transposed one, for "
                    "which there are no adapters; leave it out with "
                    "skip_modules");
}

bool Adapters::call(const c10::OperatorHandle &op, Stack &stack) {
  if (isInside)
    return false;
  const AdaptedOperator *known = findOperator(op);
  c10::IValue *weight =
      known ? findArgument(op, stack, known->weight) : nullptr;
  std::optional<size_t> state = weight ? findState(*weight) : std::nullopt;
  if (state && known->kind == LayerKind::Embedding)
    // Of tokens, which are more than positions and kinds of segments.
    vocabulary = std::max(vocabulary, host.graph.states[*state].type.sizes[0]);
  if (!state || host.graph.states[*state].type.sizes.size() < 2 ||
      (!layers.contains(*state) &&
       !isChosen(host.graph.states[*state], *known))) {
    noteReads(op, stack);
    return false;
  }
  const Layer &layer = getLayer(*state, *known);
  if (known->kind == LayerKind::Convolution)
    checkConvolution(op, stack, layer.path);
  struct Inside {
    explicit Inside(bool &flag) : flag(flag) { flag = true; }
    ~Inside() { flag = false; }
    bool &flag;
  } inside(isInside);

  Stack own(stack.end() - op.schema().arguments().size(), stack.end());
  op.callBoxed(stack);
  at::Tensor base = stack.back().toTensor();
  if (c10::IValue *input = findArgument(op, own, known->input)) {
    at::Tensor read = input->toTensor().to(layer.down.scalar_type());
    if (request.dropout > 0 && !host.graph.isInference)
      read = at::dropout(read, request.dropout, /*train=*/true);
    *input = read;
  }
  at::Tensor delta;
  switch (known->kind) {
  case LayerKind::Linear:
    delta = at::linear(callWith(op, *known, own, layer.down), layer.up);
    break;
  case LayerKind::Turned:
    delta = at::linear(
        at::linear(findArgument(op, own, known->input)->toTensor(), layer.down),
        layer.up);
    break;
  case LayerKind::Embedding:
    delta = at::linear(callWith(op, *known, own, layer.down.t()), layer.up);
    break;
  case LayerKind::Convolution:
    delta = mixChannels(callWith(op, *known, own, layer.down), layer.up);
    break;
  }
  stack.back() = base.add(delta.mul(request.getScale())).to(base.scalar_type());
  return true;
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

void Adapters::finish() {
  const std::vector<State> &states = host.graph.states;
  if (layers.empty())
    throw Error(ErrorId::ConfigBadValue,
                "'adapter': none of the model's layers is meant by modules, "
                "which names linear layers, embeddings or convolutions, or "
                "modules around linear layers; --explain lists its modules");
  for (size_t i = 0; i < states.size(); ++i) {
    const State &state = states[i];
    bool isMatrix = state.role == StateRole::Frozen &&
                    state.type.sizes.size() > 1 &&
                    getLast(state.names.front()) == "weight";
    auto read = otherReads.find(i);
    if (isMatrix && isNamed(state) && !layers.contains(i))
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
