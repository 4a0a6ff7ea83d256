//===- OwnStates.cpp - States that a model does not have ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/JointCapture.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

using namespace fsdp;
using namespace fsdp::capture;

/// A state, since a run changes it.
void JointCapture::addLossScale() {
  if (graph.isInference || !request.lossScale)
    return;
  State state;
  state.names = {kLossScaleState};
  state.role = StateRole::LossScale;
  state.type = TensorType::contiguous(c10::kFloat, {});
  state.init = request.lossScale;
  lossScale = wrap(state.type, state.value);
  seenValues.push_back(recorder.lookup(lossScale));
  graph.states.push_back(std::move(state));
  stateTensors.push_back(lossScale);
}

/// Once the model's own states are known.
void JointCapture::addAdapters() {
  if (!request.adapter ||
      (request.adapter->yieldsToOwn && hasOwnAdapters(graph)))
    return;
  graph.adapters.emplace(AdapterTable{*request.adapter, {}});
  auto train = [this](size_t state) {
    if (graph.isInference)
      return;
    graph.states[state].role = StateRole::Parameter;
    stateTensors[state].requires_grad_(true);
  };
  adapters.emplace(*request.adapter,
                   AdapterHost{graph, stateTensors,
                               [this](State state) {
                                 return declareWhileRunning(std::move(state));
                               },
                               train});
}

/// A parameter that the model as it was exported does not have.
at::Tensor JointCapture::declareWhileRunning(State state) {
  // No operators of the model.
  c10::impl::ExcludeDispatchKeyGuard quiet{c10::DispatchKeySet(
      {c10::DispatchKey::Fake, c10::DispatchKey::Functionalize, kAutocastKey})};
  if (graph.isInference)
    state.role = StateRole::Frozen;
  bool isTrained = state.role == StateRole::Parameter;
  at::Tensor tensor = addState(std::move(state));
  if (isTrained)
    tensor.requires_grad_(true);
  return tensor;
}

/// If something is drawn: the state, which is all that a resumed run needs to
/// continue the sequence, and its next value, with offset + 1.
void JointCapture::addRandomState() {
  auto isDraw = [](const Node &node) {
    return node.op.operator_name().name == kDrawOperator;
  };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), isDraw))
    return;
  State state;
  state.names = {kRandomState};
  state.role = StateRole::Random;
  state.type = graph.values[graph.random];
  state.value = graph.random;
  auto define = [&] {
    graph.values.push_back(state.type);
    return static_cast<ValueId>(graph.values.size() - 1);
  };
  ValueId one = define(), next = define();
  at::Tensor step = at::zeros({2}, c10::kLong);
  step[1] = 1;
  graph.constants.push_back({one, step});
  Node add{
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor"),
      {{Argument::Kind::Tensor, {graph.random}, {}},
       {Argument::Kind::Tensor, {one}, {}},
       {Argument::Kind::Static, {}, c10::Scalar(1)}},
      {next}};
  graph.nodes.push_back(std::move(add));
  graph.results.push_back({Result::Kind::State, graph.states.size(), next});
  graph.states.push_back(std::move(state));
}
