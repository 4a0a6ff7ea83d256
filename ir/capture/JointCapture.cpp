//===- JointCapture.cpp - Runs a model and its gradient -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/JointCapture.h"
#include "ir/capture/RecorderScope.h"
#include "ir/capture/Simplify.h"
#include "runtime/support/Error.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>

using namespace fsdp;
using namespace fsdp::capture;

namespace functional = at::functionalization::impl;

at::Tensor JointCapture::wrap(const TensorType &type, ValueId &value) {
  at::Tensor meta = at::empty(
      type.sizes, at::TensorOptions().device(c10::kMeta).dtype(type.dtype));
  value = recorder.define(meta);
  taken.insert(meta.storage().unsafeGetStorageImpl());
  return functional::to_functional_tensor(meta);
}

at::Tensor JointCapture::addState(State state) {
  at::Tensor tensor = wrap(state.type, state.value);
  graph.states.push_back(std::move(state));
  stateTensors.push_back(tensor);
  return tensor;
}

at::Tensor JointCapture::addInput(Input input) {
  at::Tensor tensor = wrap(input.type, input.value);
  graph.inputs.push_back(std::move(input));
  inputTensors.push_back(tensor);
  return tensor;
}

void JointCapture::setStateTensor(size_t state, at::Tensor tensor) {
  stateTensors[state] = std::move(tensor);
}

/// Roles of parameters are settled before the model runs on them.
void JointCapture::chooseMode() {
  bool isTrainable = false;
  for (const State &state : graph.states)
    isTrainable |= state.role == StateRole::Parameter;
  graph.isInference = request.mode == CaptureMode::Inference ||
                      (request.mode == CaptureMode::Auto && !isTrainable);
  for (size_t i = 0; i < graph.states.size(); ++i) {
    State &state = graph.states[i];
    if (state.role != StateRole::Parameter)
      continue;
    if (graph.isInference)
      state.role = StateRole::Frozen;
    else
      stateTensors[i].requires_grad_(true);
  }
}

at::Tensor
JointCapture::getLoss(const std::vector<ReturnedTensor> &returned) const {
  at::Tensor loss = returned.front().tensor;
  if (loss.dim() != 0 || !loss.is_floating_point()) {
    std::string type = c10::toString(loss.scalar_type());
    std::string sizes;
    for (int64_t size : loss.sizes())
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    throw Error(ErrorId::LossNotScalar,
                "expected the model's first output to be its loss, a "
                "floating-point tensor without dims, found " +
                    type + "[" + sizes +
                    "]; let the model return the loss first (.mean() or "
                    ".sum() makes it a scalar), or write mode: inference in "
                    "the config to run the model without training it");
  }
  return loss;
}

std::vector<at::Tensor> JointCapture::differentiate(const at::Tensor &loss) {
  std::vector<at::Tensor> leaves;
  for (size_t i = 0; i < graph.states.size(); ++i)
    if (graph.states[i].role == StateRole::Parameter)
      leaves.push_back(stateTensors[i]);
  if (leaves.empty())
    throw Error(ErrorId::NothingToTrain,
                "the model has no trainable parameter; at least one must have "
                "requires_grad=True when it is exported, or write mode: "
                "inference in the config to run the model without training it");
  if (!loss.requires_grad())
    throw Error(ErrorId::NothingToTrain,
                "the loss depends on none of the " +
                    std::to_string(leaves.size()) +
                    " trainable parameters; check for no_grad and detach "
                    "around the model");
  try {
    return torch::autograd::grad({loss}, leaves, /*grad_outputs=*/{},
                                 /*retain_graph=*/std::nullopt,
                                 /*create_graph=*/false, /*allow_unused=*/true);
  } catch (const c10::Error &error) {
    throw Error(ErrorId::OperatorFailed,
                std::string("the loss cannot be differentiated: ") +
                    error.what_without_backtrace());
  }
}

/// Results are written in place, by collectives and by updates of states: each
/// gets contiguous storage that belongs to nothing else.
void JointCapture::addResult(Result::Kind kind, size_t index,
                             const at::Tensor &tensor) {
  at::Tensor result = tensor;
  at::Tensor inner = tensor;
  if (functional::isFunctionalTensor(tensor)) {
    functional::sync(tensor);
    inner = functional::from_functional_tensor(tensor);
  }
  bool owns = inner.is_meta() && inner.is_contiguous() &&
              inner.storage_offset() == 0 &&
              inner.storage().nbytes() == inner.nbytes() &&
              taken.insert(inner.storage().unsafeGetStorageImpl()).second;
  if (!owns)
    result = at::clone(tensor, c10::MemoryFormat::Contiguous);
  graph.results.push_back({kind, index, recorder.lookup(result)});
}

void JointCapture::addOutputs(const std::vector<ReturnedTensor> &returned) {
  for (size_t i = 0; i < returned.size(); ++i)
    if (graph.outputs[i].isKept)
      addResult(Result::Kind::Output, i, returned[i].tensor);
}

void JointCapture::addChangedStates() {
  for (size_t i = 0; i < inputTensors.size(); ++i)
    if (recorder.lookup(inputTensors[i]) != graph.inputs[i].value)
      throw Error(ErrorId::ModelNotSupported,
                  "the model writes into its input '" + graph.inputs[i].name +
                      "', which is not supported; let it work on a clone");
  for (size_t i = 0; i < stateTensors.size(); ++i) {
    const State &state = graph.states[i];
    if (recorder.lookup(stateTensors[i]) == state.value)
      continue;
    if (state.role != StateRole::Buffer)
      throw Error(ErrorId::ModelNotSupported,
                  "the model writes into '" + state.names.front() +
                      "', which is not a buffer; only buffers may change in "
                      "the forward pass");
    TensorType type = TensorType::of(stateTensors[i]);
    if (type.dtype != state.type.dtype || type.sizes != state.type.sizes)
      throw Error(ErrorId::ModelNotSupported,
                  "the model changes the shape or dtype of its buffer '" +
                      state.names.front() + "', which is not supported");
    addResult(Result::Kind::State, i, stateTensors[i]);
  }
}

void JointCapture::addGradients(const std::vector<at::Tensor> &gradients) {
  size_t next = 0;
  for (size_t i = 0; i < graph.states.size(); ++i) {
    State &state = graph.states[i];
    if (state.role != StateRole::Parameter)
      continue;
    const at::Tensor &gradient = gradients[next++];
    if (gradient.defined()) {
      addResult(Result::Kind::Gradient, i, gradient);
      continue;
    }
    // As in PyTorch, where its gradient stays None and the optimizer skips it.
    state.role = StateRole::Frozen;
    graph.withoutGradient.push_back(state.names.front());
  }
}

void JointCapture::run(
    const std::function<std::vector<ReturnedTensor>()> &forward) {
  chooseMode();
  {
    Recorder::Scope scope(recorder);
    at::AutoGradMode mode(!graph.isInference);
    std::vector<ReturnedTensor> returned = forward();
    if (returned.empty())
      throw Error(ErrorId::LossNotScalar,
                  "the model returns no tensor; let it return its loss first");
    at::Tensor loss = graph.isInference ? at::Tensor() : getLoss(returned);
    graph.outputs = nameOutputs(returned, graph.isInference);
    selectOutputs(request.outputs, graph.isInference, graph.outputs);
    {
      // Before the gradients: a copy of an output is a part of forward.
      at::NoGradGuard none;
      if (loss.defined())
        addResult(Result::Kind::Loss, 0, loss);
      addOutputs(returned);
    }
    std::vector<at::Tensor> gradients;
    if (loss.defined())
      gradients = differentiate(loss);
    at::NoGradGuard none;
    addChangedStates();
    if (loss.defined())
      addGradients(gradients);
  }
  simplify(graph);
}

void JointCapture::moveConstants(
    uint64_t bytes,
    const std::function<std::optional<Record>(const at::Tensor &)> &find) {
  size_t moved = 0;
  std::erase_if(graph.constants, [&](const Constant &constant) {
    if (constant.data.nbytes() <= bytes || !constant.data.is_contiguous())
      return false;
    std::optional<Record> source = find(constant.data);
    if (!source)
      return false;
    State state;
    state.names = {"constant/" + std::to_string(moved++)};
    state.role = StateRole::Constant;
    state.type = TensorType::of(constant.data);
    state.source = std::move(source);
    state.value = constant.value;
    graph.states.push_back(std::move(state));
    return true;
  });
}
