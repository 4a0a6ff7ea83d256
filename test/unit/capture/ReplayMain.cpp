//===- ReplayMain.cpp - Compares a captured step with autograd ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-capture-replay MODEL.pt2 [--inference] [OUTPUT]...: computes loss,
// outputs, gradients and changed buffers of the archive's sample inputs in two
// ways, by the captured graph and by running the exported program under
// autograd on real tensors, and compares.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/Pt2Capture.h"
#include "ir/capture/Pt2Interpreter.h"
#include "ir/capture/Pt2Program.h"
#include "runtime/support/Error.h"
#include "test/unit/capture/Replay.h"

#include <torch/csrc/autograd/autograd.h>

#include <iostream>
#include <string_view>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

struct Reference {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> states;    // after the step
  std::vector<at::Tensor> gradients; // by state, undefined where there is none
};

Reference runEagerly(const Pt2Program &program,
                     const std::vector<at::Tensor> &states,
                     const std::vector<at::Tensor> &inputs, bool isInference) {
  Reference reference;
  Pt2Interpreter interpreter(c10::kCPU);
  std::vector<at::Tensor> leaves;
  for (size_t i = 0; i < states.size(); ++i) {
    at::Tensor state = states[i].clone();
    if (program.states[i].role == StateRole::Parameter)
      leaves.push_back(state.requires_grad_(true));
    reference.states.push_back(state);
  }
  for (const Pt2StateInput &input : program.stateInputs)
    interpreter.bind(input.placeholder, reference.states[input.state]);
  for (const Pt2UserInput &input : program.userInputs)
    interpreter.bind(input.placeholder,
                     input.input ? c10::IValue(inputs[*input.input])
                                 : interpreter.evaluate(*input.constant));
  interpreter.run(program.getGraph());
  for (const Pt2BufferUpdate &update : program.bufferUpdates)
    reference.states[update.state] = interpreter.get(update.value).toTensor();
  for (const Pt2Output &output : program.outputs)
    reference.outputs.push_back(interpreter.get(output.value).toTensor());
  reference.gradients.resize(states.size());
  if (isInference)
    return reference;
  std::vector<at::Tensor> gradients =
      torch::autograd::grad({reference.outputs.front()}, leaves, {},
                            std::nullopt, /*create_graph=*/false,
                            /*allow_unused=*/true);
  for (size_t i = 0, next = 0; i < states.size(); ++i)
    if (program.states[i].role == StateRole::Parameter)
      reference.gradients[i] = gradients[next++];
  return reference;
}

at::Tensor load(const std::string &path, const std::optional<Record> &record,
                const TensorType &type, const std::string &name) {
  if (!record)
    throw std::runtime_error("no data for '" + name + "'");
  return loadRecord(path, *record, type);
}

/// Both compute with the same kernels: only sums in another order may differ.
bool isClose(const at::Tensor &found, const at::Tensor &expected) {
  bool coarse = expected.scalar_type() == c10::ScalarType::BFloat16 ||
                expected.scalar_type() == c10::ScalarType::Half;
  return found.sizes() == expected.sizes() &&
         found.scalar_type() == expected.scalar_type() &&
         found.allclose(expected, coarse ? 1e-2 : 1e-5, coarse ? 1e-2 : 1e-6,
                        /*equal_nan=*/true);
}

int compare(const std::string &path, CaptureRequest request) {
  ZipDirectory archive = ZipDirectory::read(path);
  Pt2Program program = Pt2Program::read(archive);
  std::vector<at::Tensor> states, inputs;
  for (const State &state : program.states)
    states.push_back(load(path, state.source, state.type, state.names.front()));
  for (const Input &input : program.inputs)
    inputs.push_back(load(path, input.sample, input.type, input.name));

  JointCapture capture(std::move(request));
  capturePt2(archive, capture);
  JointGraph graph = capture.take();
  std::vector<at::Tensor> results = replay(graph, states, inputs);
  Reference reference = runEagerly(program, states, inputs, graph.isInference);

  int counts[4] = {}, failures = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const Result &result = graph.results[i];
    bool isOutput = result.kind == Result::Kind::Loss ||
                    result.kind == Result::Kind::Output;
    const std::string &name = isOutput
                                  ? graph.outputs[result.index].name
                                  : graph.states[result.index].names.front();
    at::Tensor expected = isOutput ? reference.outputs[result.index]
                          : result.kind == Result::Kind::Gradient
                              ? reference.gradients[result.index]
                              : reference.states[result.index];
    ++counts[int(result.kind)];
    if (expected.defined() && isClose(results[i], expected))
      continue;
    ++failures;
    std::cout << name << " differs\n";
  }
  // Nothing may be missing either.
  int gradients = 0, changed = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    gradients += reference.gradients[i].defined();
    changed += !reference.gradients[i].defined() &&
               !states[i].equal(reference.states[i].detach());
  }
  if (gradients != counts[int(Result::Kind::Gradient)] ||
      changed > counts[int(Result::Kind::State)]) {
    ++failures;
    std::cout << "expected " << gradients << " gradients and " << changed
              << " changed buffers\n";
  }
  std::cout << (failures ? "different" : "equal") << ": "
            << counts[int(Result::Kind::Loss)] << " loss, ";
  if (int outputs = counts[int(Result::Kind::Output)])
    std::cout << outputs << " outputs, ";
  std::cout << counts[int(Result::Kind::Gradient)] << " gradients, "
            << counts[int(Result::Kind::State)] << " buffers\n";
  return failures ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) {
  CaptureRequest request;
  for (int i = 2; i < argc; ++i)
    if (std::string_view(argv[i]) == "--inference")
      request.mode = CaptureMode::Inference;
    else
      request.outputs.emplace_back(argv[i]);
  if (argc < 2) {
    std::cerr << "usage: fsdp-capture-replay MODEL.pt2 [--inference] "
                 "[OUTPUT]...\n";
    return 2;
  }
  try {
    return compare(argv[1], std::move(request));
  } catch (const Error &error) {
    std::cerr << error.format() << "\n";
  } catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
