//===- AdaptedLayers.cpp - Layers with matrices beside them ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/AdaptedOperators.h"
#include "ir/capture/joint/Adapters.h"
#include "support/Error.h"
#include "support/ModulePath.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>

using namespace fsdp;
using namespace fsdp::capture;

using Stack = std::vector<c10::IValue>;

//===----------------------------------------------------------------------===//
// Their states
//===----------------------------------------------------------------------===//

at::Tensor Adapters::declare(const std::string &name, const State &base,
                             std::vector<int64_t> sizes, FirstValue first,
                             bool isTrained) {
  State state;
  state.names = {name};
  state.role = isTrained ? StateRole::Parameter : StateRole::Frozen;
  // As PEFT: adapters of models in few bits are float32.
  c10::ScalarType dtype = base.type.dtype;
  if (c10::elementSize(dtype) < 4)
    dtype = c10::kFloat;
  state.type = TensorType::contiguous(dtype, std::move(sizes));
  state.first = first;
  return host.declare(std::move(state));
}

/// [rank, in] and [out, rank], of convolutions with more dims behind.
void Adapters::declareMatrices(Layer &layer, const State &base, AdapterRow &row,
                               const std::string &prefix,
                               const std::string &suffix) {
  bool isEmbedding = layer.op->kind == LayerKind::Embedding;
  std::vector<int64_t> down = base.type.sizes, up = down;
  int64_t rank = request.rank;
  if (layer.op->isTurned())
    std::swap(down[0], down[1]);
  int64_t out = down[0];
  down[0] = rank;
  up.assign(down.size(), 1);
  up[0] = out;
  up[1] = rank;
  int64_t fan = 1;
  for (size_t i = 1; i < down.size(); ++i)
    fan *= down[i];
  double bound = fan ? 1 / std::sqrt(static_cast<double>(fan)) : 0;
  using Kind = FirstValue::Kind;
  FirstValue first{Kind::Uniform, -bound, bound}, second{Kind::Zero};
  if (request.init == AdapterInit::Gaussian)
    first = {Kind::Normal, 0, 1 / static_cast<double>(rank)};
  // PEFT begins embeddings the other way round.
  if (isEmbedding)
    first = {Kind::Zero}, second = {Kind::Normal, 0, 1};
  bool isTaken = request.init == AdapterInit::Pissa;
  if (isTaken)
    first = second = {Kind::Pissa, static_cast<double>(request.iterations)};
  if (request.init == AdapterInit::Loftq)
    first = second = {Kind::Loftq};
  row.down = prefix + "A" + suffix;
  row.up = prefix + "B" + suffix;
  layer.down = declare(row.down, base, down, first);
  layer.up = declare(row.up, base, up, second);
  if (!isTaken)
    return;
  row.firstDown = prefix + "A_first" + suffix;
  row.firstUp = prefix + "B_first" + suffix;
  declare(row.firstDown, base, down, first, /*isTrained=*/false);
  declare(row.firstUp, base, up, second, /*isTrained=*/false);
}

/// As PEFT has it: of convolutions with the dims of what they compute.
static std::vector<int64_t> getMagnitudeSizes(const State &base,
                                              const AdaptedOperator &op) {
  const std::vector<int64_t> &sizes = base.type.sizes;
  if (op.kind != LayerKind::Convolution)
    return {op.isTurned() ? sizes[1] : sizes[0]};
  std::vector<int64_t> result(sizes.size(), 1);
  result[1] = sizes[0];
  return result;
}

Adapters::Layer &Adapters::getLayer(size_t index, const AdaptedOperator &op) {
  auto [at, isNew] = layers.try_emplace(index);
  Layer &layer = at->second;
  if (!isNew)
    return layer;
  // A copy: more states are declared.
  const State base = host.graph.states[index];
  if (base.names.size() > 1)
    throw Error(ErrorId::ConfigNotSupported,
                "'adapter' means '" + base.names.front() +
                    "', which is also '" + base.names[1] +
                    "' of the model: what is added to the one would not be "
                    "added to the other; leave it out with skip_modules, or "
                    "train it with also_train");
  if (request.init == AdapterInit::Pissa && base.type.sizes.size() > 2)
    throw Error(ErrorId::ConfigNotSupported,
                "'adapter' means '" + base.names.front() +
                    "', a convolution, which has no singular vectors that "
                    "init: pissa could begin with; leave it out with "
                    "skip_modules");
  layer.path = getModulePath(base.names.front());
  layer.op = &op;
  bool isEmbedding = op.kind == LayerKind::Embedding;
  AdapterRow row;
  row.base = base.names.front();
  row.isTurned = op.isTurned();
  declareMatrices(layer, base, row,
                  layer.path + (isEmbedding ? ".lora_embedding_" : ".lora_"),
                  isEmbedding ? "" : ".weight");
  if (request.hasMagnitudes) {
    row.magnitude = layer.path + ".lora_magnitude_vector";
    layer.magnitude = declare(row.magnitude, base, getMagnitudeSizes(base, op),
                              {FirstValue::Kind::Norms});
  }
  if (request.bias == TrainedBias::LoraOnly)
    for (size_t i = 0; i < host.graph.states.size(); ++i)
      if (host.graph.states[i].names.front() == layer.path + ".bias")
        host.train(i);
  host.graph.adapters->layers.push_back(std::move(row));
  return layer;
}

//===----------------------------------------------------------------------===//
// What is computed
//===----------------------------------------------------------------------===//

/// The layer itself is called with what is put in its matrix's place.
static at::Tensor callWith(const c10::OperatorHandle &op,
                           const AdaptedOperator &known, Stack stack,
                           const at::Tensor &weight) {
  // addmm has to have something to add.
  if (known.kind == LayerKind::Turned)
    return findArgument(op, stack, known.input)->toTensor().mm(weight);
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

/// up(down(x)).
static at::Tensor computeProduct(const c10::OperatorHandle &op,
                                 const AdaptedOperator &known, Stack &own,
                                 const at::Tensor &down, const at::Tensor &up) {
  switch (known.kind) {
  case LayerKind::Linear:
    return at::linear(callWith(op, known, own, down), up);
  case LayerKind::Turned:
    return at::linear(
        at::linear(findArgument(op, own, known.input)->toTensor(), down), up);
  case LayerKind::Embedding:
    return at::linear(callWith(op, known, own, down.t()), up);
  case LayerKind::Convolution:
    break;
  }
  return mixChannels(callWith(op, known, own, down), up);
}

/// Of each out of the layer's matrix and what is added to it: constants of a
/// step, as section 4.3 of "DoRA: Weight-Decomposed Low-Rank Adaptation" has
/// it.
at::Tensor Adapters::computeNorms(const Layer &layer,
                                  const at::Tensor &weight) const {
  at::NoGradGuard none;
  at::Tensor down = layer.down.flatten(1), up = layer.up.flatten(1);
  at::Tensor sum = weight.to(down.scalar_type()).flatten(1);
  bool isTurned = layer.op->isTurned();
  at::Tensor delta = isTurned ? down.t().mm(up.t()) : up.mm(down);
  sum = sum.add(delta, request.getScale());
  at::Tensor norms = sum.mul(sum).sum(isTurned ? 0 : 1).sqrt();
  return norms.view(layer.magnitude.sizes());
}

/// `base` is what the layer computes by itself, `own` its arguments.
at::Tensor Adapters::computeLayer(const c10::OperatorHandle &op, Layer &layer,
                                  const at::Tensor &base, Stack &own) {
  const AdaptedOperator &known = *layer.op;
  double scale = request.getScale();
  bool drops =
      request.dropout > 0 && !host.graph.isInference && !known.input.empty();
  if (c10::IValue *input = findArgument(op, own, known.input)) {
    at::Tensor read = input->toTensor().to(layer.down.scalar_type());
    if (drops)
      read = at::dropout(read, request.dropout, /*train=*/true);
    *input = read;
  }
  at::Tensor delta =
      computeProduct(op, known, own, layer.down, layer.up).mul(scale);
  if (!layer.magnitude.defined())
    return base.add(delta);

  at::Tensor weight = findArgument(op, own, known.weight)->toTensor();
  if (!layer.norms.defined())
    layer.norms = computeNorms(layer, weight);
  at::Tensor ratio = layer.magnitude.div(layer.norms);
  if (known.kind == LayerKind::Convolution && base.dim() < weight.dim())
    ratio = ratio.squeeze(0);
  // What the matrix makes of the input as the adapter reads it.
  at::Tensor product = base;
  c10::IValue *bias = findArgument(op, own, known.bias);
  bool hasBias = bias && bias->isTensor() && bias->toTensor().defined();
  if (drops) {
    product = callWith(op, known, own, weight.to(layer.down.scalar_type()));
  } else if (hasBias) {
    at::Tensor added = bias->toTensor();
    if (known.kind == LayerKind::Convolution)
      added = added.view(ratio.sizes());
    product = base.sub(added);
  }
  return base.add(product.mul(ratio.sub(1))).add(delta.mul(ratio));
}

bool Adapters::call(const c10::OperatorHandle &op, Stack &stack) {
  if (isInside)
    return false;
  struct Inside {
    explicit Inside(bool &flag) : flag(flag) { flag = true; }
    ~Inside() { flag = false; }
    bool &flag;
  };
  if (!stacked.empty()) {
    Inside inside(isInside);
    replaceStacked(op, stack);
  }
  const AdaptedOperator *known = findAdaptedOperator(op);
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
  Layer &layer = getLayer(*state, *known);
  if (known->kind == LayerKind::Convolution)
    checkConvolution(op, stack, layer.path);
  Inside inside(isInside);
  Stack own(stack.end() - op.schema().arguments().size(), stack.end());
  op.callBoxed(stack);
  at::Tensor base = stack.back().toTensor();
  stack.back() = computeLayer(op, layer, base, own).to(base.scalar_type());
  return true;
}
