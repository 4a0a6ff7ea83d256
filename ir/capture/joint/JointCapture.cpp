//===- JointCapture.cpp - Runs a model and its gradient -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/JointCapture.h"
#include "ir/capture/joint/LabelShare.h"
#include "ir/capture/joint/Limits.h"
#include "ir/capture/joint/MaskedWrites.h"
#include "ir/capture/joint/RecorderScope.h"
#include "ir/capture/joint/Simplify.h"
#include "support/Error.h"
#include "support/LossWeight.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

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

JointCapture::JointCapture(CaptureRequest wanted) : request(std::move(wanted)) {
  if (request.precision.isEmpty() && !request.holdsMasters)
    return;
  precision.emplace(request.precision, recorder);
  graph.precision = request.precision;
}

/// A tensor of another dtype for a value that is defined here, and the node
/// that casts it.
at::Tensor JointCapture::wrapAs(c10::ScalarType dtype, const TensorType &type,
                                ValueId &value, Cast cast) {
  if (dtype == type.dtype)
    return wrap(type, value);
  value = recorder.define(at::empty(
      type.sizes, at::TensorOptions().device(c10::kMeta).dtype(type.dtype)));
  TensorType seen = type;
  seen.dtype = dtype;
  ValueId result;
  at::Tensor tensor = wrap(seen, result);
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_to_copy", "");
  Node node{op, {}, {result}, kNoLocation, CastId(graph.casts.size())};
  for (const c10::Argument &argument : op.schema().arguments())
    if (argument.name() == "self")
      node.arguments.push_back({Argument::Kind::Tensor, {value}, {}});
    else if (argument.name() == "dtype")
      node.arguments.push_back({Argument::Kind::Static, {}, dtype});
    else
      node.arguments.push_back(
          {Argument::Kind::Static, {}, *argument.default_value()});
  graph.nodes.push_back(std::move(node));
  graph.casts.push_back(std::move(cast));
  return tensor;
}

/// Where the model trains: its parameters of fewer bits become float32.
void JointCapture::widenState(State &state) const {
  c10::ScalarType own = state.type.dtype;
  if (!request.holdsMasters || request.mode == CaptureMode::Inference ||
      state.role != StateRole::Parameter ||
      (own != c10::kBFloat16 && own != c10::kHalf))
    return;
  state.modelDtype = own;
  state.type.dtype = c10::kFloat;
}

at::Tensor JointCapture::addState(State state) {
  widenState(state);
  at::Tensor tensor = wrapAs(
      precision ? precision->getSeenDtype(state) : state.type.dtype, state.type,
      state.value, {Cast::Cause::Parameter, state.names.front()});
  seenValues.push_back(recorder.lookup(tensor));
  graph.states.push_back(std::move(state));
  stateTensors.push_back(tensor);
  return tensor;
}

at::Tensor JointCapture::addInput(Input input) {
  at::Tensor tensor =
      wrapAs(precision ? precision->getSeenDtype(input) : input.type.dtype,
             input.type, input.value, {Cast::Cause::Input, input.name});
  graph.inputs.push_back(std::move(input));
  inputTensors.push_back(tensor);
  return tensor;
}

void JointCapture::setStateTensor(size_t state, at::Tensor tensor) {
  stateTensors[state] = std::move(tensor);
}

/// Roles of parameters are settled before the model runs on them.
void JointCapture::chooseMode() {
  bool isTrainable = adapters.has_value();
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

static bool isScalarLoss(const at::Tensor &tensor) {
  return tensor.dim() == 0 && tensor.is_floating_point();
}

/// Puts the output that is asked for as the loss in front.
void JointCapture::chooseLoss(std::vector<ReturnedTensor> &returned) const {
  if (request.loss.empty() || graph.isInference)
    return;
  size_t index = findOutput(request.loss, returned);
  std::rotate(returned.begin(), returned.begin() + index,
              returned.begin() + index + 1);
}

at::Tensor
JointCapture::getLoss(const std::vector<ReturnedTensor> &returned) const {
  at::Tensor loss = returned.front().tensor;
  if (isScalarLoss(loss))
    return loss;
  std::string type = c10::toString(loss.scalar_type());
  std::string sizes;
  for (int64_t size : loss.sizes())
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  // As an inference program's: the first has its own name.
  std::vector<Output> named = nameOutputs(returned, /*isInference=*/true);
  std::string others;
  for (size_t i = 1; i < returned.size(); ++i)
    if (isScalarLoss(returned[i].tensor))
      others += (others.empty() ? "--loss=" : " or --loss=") + named[i].name;
  throw Error(ErrorId::LossNotScalar,
              (request.loss.empty()
                   ? "expected the model's first output to be its loss"
                   : "--loss=" + request.loss + ": expected an output") +
                  ", a floating-point tensor without dims, found " + type +
                  "[" + sizes + "]; " +
                  (others.empty()
                       ? "let the model return the loss first (.mean() or "
                         ".sum() makes it a scalar)"
                       : "name the one that is the loss with " + others) +
                  ", or write mode: inference in the config to run the model "
                  "without training it");
}

void JointCapture::checkLostBackwards() {
  if (graph.isInference || lost.empty())
    return;
  if (!request.acceptLostGradients)
    throw explainLostBackwards(lost);
  for (const LostBackward &each : lost)
    graph.accepted.push_back(each.describeAccepted());
}

/// `states` have no gradient.
void JointCapture::checkLostGradients(const std::vector<size_t> &states) {
  if (states.empty())
    return;
  std::vector<std::string> lines =
      explainLostGradients(graph, graph.results.front().value, states);
  if (lines.empty() || request.acceptLostGradients)
    return;
  constexpr size_t kMost = 8;
  std::string all;
  for (size_t i = 0; i < std::min(lines.size(), kMost); ++i)
    all += (i ? "; " : "") + lines[i];
  if (lines.size() > kMost)
    all += "; and " + std::to_string(lines.size() - kMost) + " more";
  throw Error(ErrorId::GradientLost,
              "the loss is computed from trainable parameters, but gives them "
              "no gradient, as behind no_grad, detach or an operator without "
              "a derivative: " +
                  all +
                  "; freeze them (requires_grad_(False)) before the export if "
                  "they are not to be trained, or write lost_gradients: accept "
                  "in the config");
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
                    "around the model" +
                    (lost.empty() ? ""
                                  : ", and the export lost the backward of " +
                                        lost.front().describe()));
  std::vector<at::Tensor> seeds;
  if (lossScale.defined()) {
    at::NoGradGuard none;
    seeds.push_back(lossScale.to(loss.scalar_type()));
  }
  try {
    return torch::autograd::grad({loss}, leaves, seeds,
                                 /*retain_graph=*/std::nullopt,
                                 /*create_graph=*/false, /*allow_unused=*/true);
  } catch (const c10::Error &error) {
    if (std::optional<std::string> sparse = describeSparseGradient(graph))
      throw Error(ErrorId::OperatorFailed, *sparse);
    throw Error(ErrorId::OperatorFailed,
                std::string("the loss cannot be differentiated: ") +
                    error.what_without_backtrace());
  }
}

/// Results are written in place, by collectives and by updates of states: each
/// gets contiguous storage that belongs to nothing else.
at::Tensor JointCapture::makeOwn(const at::Tensor &tensor) {
  at::Tensor inner = tensor;
  if (functional::isFunctionalTensor(tensor)) {
    functional::sync(tensor);
    inner = functional::from_functional_tensor(tensor);
  }
  // An operator may leave its result in storage that is too large, as mse_loss
  // does: then nothing else is there.
  bool owns = inner.is_meta() && inner.is_contiguous() &&
              inner.storage_offset() == 0 &&
              (inner.storage().nbytes() == inner.nbytes() ||
               recorder.hasOwnStorage(inner)) &&
              taken.insert(inner.storage().unsafeGetStorageImpl()).second;
  return owns ? tensor : at::clone(tensor, c10::MemoryFormat::Contiguous);
}

void JointCapture::addResult(Result::Kind kind, size_t index,
                             const at::Tensor &tensor) {
  graph.results.push_back({kind, index, recorder.lookup(makeOwn(tensor))});
}

void JointCapture::addOutputs(const std::vector<ReturnedTensor> &returned) {
  for (size_t i = 0; i < returned.size(); ++i)
    if (graph.outputs[i].isKept)
      addResult(Result::Kind::Output, i, returned[i].tensor);
}

/// Not one of those that the model returns.
void JointCapture::addShare(const at::Tensor &share) {
  Output output;
  output.name = kLossWeight;
  output.type = TensorType::of(share);
  output.isKept = true;
  addResult(Result::Kind::Output, graph.outputs.size(), share);
  graph.outputs.push_back(std::move(output));
}

/// " (net.0 at model.py:12)", where the value is computed.
std::string JointCapture::describeOrigin(ValueId value) const {
  for (const Node &node : graph.nodes)
    if (std::find(node.results.begin(), node.results.end(), value) !=
            node.results.end() &&
        node.location != kNoLocation)
      return " (" + graph.locations[node.location].describe() + ")";
  return "";
}

/// Adds the state's new value, if the model gave it one. Inputs may be written,
/// too: they are the step's own copies.
void JointCapture::addChangedState(size_t index) {
  State &state = graph.states[index];
  ValueId value = recorder.lookup(stateTensors[index]);
  if (value == seenValues[index])
    return;
  const std::string &name = state.names.front();
  auto refuse = [&](const std::string &what, const std::string &why) {
    throw Error(ErrorId::ModelNotSupported, "the model " + what + " '" + name +
                                                "'" + describeOrigin(value) +
                                                ", " + why);
  };
  if (state.role == StateRole::Parameter)
    refuse("writes into its trainable parameter",
           "which ranks hold in shards and only the optimizer changes; compute "
           "with a changed copy, or freeze it (requires_grad = False)");
  if (seenValues[index] != state.value)
    refuse("writes into its parameter",
           "of which mixed precision gives it a copy in another dtype, so that "
           "the change would be lost; register it as a buffer");
  if (!state.overlaps.empty())
    refuse("writes into", "which shares memory with '" + state.overlaps +
                              "'; give each a tensor of its own");
  TensorType type = TensorType::of(stateTensors[index]);
  if (type.dtype != state.type.dtype || type.sizes != state.type.sizes)
    refuse("changes the shape or dtype of its buffer",
           "which is not supported; give it the largest shape that it needs");
  // Each rank has it whole from here on, as replicas of a model do.
  if (state.role == StateRole::Frozen)
    graph.written.push_back(name);
  state.role = StateRole::Buffer;
  addResult(Result::Kind::State, index, stateTensors[index]);
}

void JointCapture::addGradients(const std::vector<at::Tensor> &gradients) {
  size_t next = 0;
  std::vector<std::pair<size_t, at::Tensor>> given;
  std::vector<size_t> missing;
  for (size_t i = 0; i < graph.states.size(); ++i)
    if (graph.states[i].role == StateRole::Parameter &&
        !gradients[next++].defined())
      missing.push_back(i);
  checkLostGradients(missing);
  next = 0;
  for (size_t i = 0; i < graph.states.size(); ++i) {
    State &state = graph.states[i];
    if (state.role != StateRole::Parameter)
      continue;
    const at::Tensor &gradient = gradients[next++];
    if (gradient.defined()) {
      given.emplace_back(i, gradient);
    } else {
      // As in PyTorch, where its gradient stays None and the optimizer skips
      // it.
      state.role = StateRole::Frozen;
      graph.withoutGradient.push_back(state.names.front());
    }
    addChangedState(i);
  }
  for (const auto &[index, gradient] : given) {
    State &state = graph.states[index];
    if (!precision) {
      addResult(Result::Kind::Gradient, index, gradient);
      continue;
    }
    if (c10::ScalarType dtype = precision->getReduceDtype(state);
        dtype != state.type.dtype)
      state.reduceDtype = dtype;
    // What is reduced lies in storage of its own as well.
    at::Tensor reduced = precision->castToReduce(gradient, state);
    if (state.reduceDtype)
      reduced = precision->castToOwn(makeOwn(reduced), state);
    addResult(Result::Kind::Gradient, index, reduced);
  }
}

std::vector<ReturnedTensor> JointCapture::runForward(
    const std::function<std::vector<ReturnedTensor>()> &forward) {
  std::optional<CallExtenderScope> extended, disturbed;
  if (adapters)
    extended.emplace(*adapters);
  if (noise)
    disturbed.emplace(*noise);
  if (request.precision.isEmpty()) {
    std::vector<ReturnedTensor> returned = forward();
    chooseLoss(returned);
    return returned;
  }
  OperandCasterScope scope(*precision);
  for (const at::Tensor &input : inputTensors)
    precision->noteInput(input);
  std::vector<ReturnedTensor> returned = forward();
  chooseLoss(returned);
  std::vector<Output> named = nameOutputs(returned, graph.isInference);
  for (size_t i = 0; i < returned.size(); ++i)
    returned[i].tensor =
        precision->castOutput(returned[i].tensor, named[i].name);
  return returned;
}

void JointCapture::run(
    const std::function<std::vector<ReturnedTensor>()> &forward) {
  addAdapters();
  chooseMode();
  addLossScale();
  if (request.noiseAlpha != 0 && !graph.isInference)
    noise.emplace(request.noiseAlpha, graph, stateTensors,
                  [this] { return recorder.getNextSite(); });
  {
    Recorder::Scope scope(recorder);
    at::AutoGradMode mode(!graph.isInference);
    std::vector<ReturnedTensor> returned = runForward(forward);
    if (adapters)
      adapters->finish();
    if (noise)
      noise->finish();
    if (returned.empty())
      throw Error(ErrorId::LossNotScalar,
                  "the model returns no tensor; let it return its loss first");
    checkLostBackwards();
    at::Tensor loss = graph.isInference ? at::Tensor() : getLoss(returned);
    graph.outputs = nameOutputs(returned, graph.isInference);
    selectOutputs(request.outputs, graph.isInference, graph.outputs);
    at::Tensor share;
    if (request.weighsLoss && loss.defined()) {
      share = computeLabelShare(graph, recorder, loss);
      loss = weighLoss(loss, share);
    }
    {
      // Before the gradients: a copy for a result is a part of forward.
      at::NoGradGuard none;
      if (loss.defined())
        addResult(Result::Kind::Loss, 0, loss);
      addOutputs(returned);
      if (share.defined())
        addShare(share);
      for (size_t i = 0; i < graph.states.size(); ++i)
        if (graph.states[i].role != StateRole::Parameter)
          addChangedState(i);
    }
    if (loss.defined()) {
      std::vector<at::Tensor> gradients = differentiate(loss);
      at::NoGradGuard none;
      addGradients(gradients);
    }
  }
  simplify(graph);
  chooseByMasks(graph);
  narrowLimits(graph);
  placeCasts(graph);
  addRandomState();
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
