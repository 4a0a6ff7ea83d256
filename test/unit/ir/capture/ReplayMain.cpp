//===- ReplayMain.cpp - Compares a captured step with autograd ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-capture-replay MODEL.pt2 [--inference] [--gpu=90] [NAME=SIZE]...
//                     [OUTPUT]...
// fsdp-capture-replay --each MODEL.pt2...
//
// Computes loss, outputs, gradients and changed buffers of the archive's sample
// inputs in two ways, by the captured graph and by running the exported program
// under autograd on real tensors, and compares. Dynamic dimensions get the
// sizes given, and the samples are repeated or cut to fit. With --gpu the graph
// is what is captured for a GPU of that capability; it runs on the CPU all the
// same.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/attention/Reader.h"
#include "ir/capture/meta/TargetScope.h"
#include "ir/capture/pt2/Capture.h"
#include "ir/capture/pt2/Interpreter.h"
#include "ir/capture/pt2/Program.h"
#include "support/Error.h"
#include "test/unit/ir/capture/CounterDraws.h"
#include "test/unit/ir/capture/Replay.h"

#include "llvm/ADT/StringRef.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <iostream>
#include <string_view>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

constexpr int64_t kSeed = 5;

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
    interpreter.bind(input.placeholder, input.input
                                            ? c10::IValue(inputs[*input.input])
                                            : interpreter.evaluate(input));
  interpreter.run(program.getGraph());
  for (const Pt2StateUpdate &update : program.updates)
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

/// Whether a state still has its bits, NaNs among them.
bool isUnchanged(const at::Tensor &now, const at::Tensor &before) {
  return at::isFloatingType(before.scalar_type())
             ? now.allclose(before, 0, 0, /*equal_nan=*/true)
             : now.equal(before);
}

/// Repeats or cuts each dim.
at::Tensor resize(at::Tensor tensor, const std::vector<int64_t> &sizes) {
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    tensor = tensor.index_select(
        int64_t(dim),
        at::arange(sizes[dim]).remainder(tensor.size(int64_t(dim))));
  return tensor;
}

int compare(const std::string &path, CaptureRequest request,
            const DimSizes &dims, const Target &target) {
  ZipDirectory archive = ZipDirectory::read(path);
  Pt2Program program = Pt2Program::read(archive, dims);
  Pt2Program exported = Pt2Program::read(archive, {{}, /*keepExported=*/true});
  std::vector<at::Tensor> states, inputs;
  for (const State &state : program.states)
    states.push_back(load(path, state.source, state.type, state.names.front()));
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Input &sample = exported.inputs[i];
    inputs.push_back(resize(load(path, sample.sample, sample.type, sample.name),
                            program.inputs[i].type.sizes));
  }

  JointGraph graph = [&] {
    meta::TargetScope scope(target);
    JointCapture capture(request);
    attention::Reader reader(capture, request, /*readsStates=*/false);
    meta::AttentionReaderScope attention(reader);
    capturePt2(archive, dims, capture);
    return capture.take();
  }();
  // Behind the archive's own states.
  std::vector<at::Tensor> all = states;
  if (graph.random != kNoValue)
    all.push_back(at::tensor({kSeed, int64_t(0)}, at::kLong));
  std::vector<at::Tensor> results = replay(graph, all, inputs);
  beginDraws(kSeed);
  Reference reference = runEagerly(program, states, inputs, graph.isInference);
  if (graph.random != kNoValue)
    reference.states.push_back(at::tensor({kSeed, int64_t(1)}, at::kLong));

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
    // The random state is none of the archive's.
    if (result.kind != Result::Kind::State || result.index < states.size())
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
               !isUnchanged(reference.states[i].detach(), states[i]);
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

/// 0: equal; 1: different or refused.
int compareOrExplain(const std::string &path, CaptureRequest request,
                     const DimSizes &dims, const Target &target = {}) {
  try {
    return compare(path, std::move(request), dims, target);
  } catch (const Error &error) {
    std::cerr << error.format() << "\n";
  } catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  CaptureRequest request;
  // Autograd on the same archive says which there are.
  request.acceptLostGradients = true;
  // Many archives in one process, each named before what is said about it.
  if (argc > 1 && std::string_view(argv[1]) == "--each") {
    int failures = 0;
    for (int i = 2; i < argc; ++i) {
      std::cout << argv[i] << ": " << std::flush;
      failures +=
          compareOrExplain(argv[i], request, {{}, /*keepExported=*/true});
      std::cout << std::flush;
    }
    return failures ? 1 : 0;
  }
  DimSizes dims{{}, /*keepExported=*/true};
  Target target;
  for (int i = 2; i < argc; ++i) {
    auto [name, size] = llvm::StringRef(argv[i]).split('=');
    int64_t number = 0;
    if (name == "--inference")
      request.mode = CaptureMode::Inference;
    else if (name == "--gpu" && !size.getAsInteger(10, target.capability))
      target.device = Target::Device::Cuda;
    else if (size.getAsInteger(10, number))
      request.outputs.emplace_back(argv[i]);
    else
      dims.sizes.emplace_back(name.str(), number);
  }
  if (argc < 2) {
    std::cerr << "usage: fsdp-capture-replay MODEL.pt2 [--inference] "
                 "[--gpu=90] [NAME=SIZE]... [OUTPUT]...\n       "
                 "fsdp-capture-replay --each MODEL.pt2...\n";
    return 2;
  }
  return compareOrExplain(argv[1], std::move(request), dims, target);
}
