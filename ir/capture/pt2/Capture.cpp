//===- Capture.cpp - torch.export archives --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Capture.h"
#include "ir/capture/pt2/Hooks.h"
#include "ir/capture/pt2/Interpreter.h"
#include "ir/capture/pt2/Operators.h"
#include "ir/capture/pt2/Program.h"

using namespace fsdp;
using namespace fsdp::capture;

bool fsdp::capture::isPt2(const ZipDirectory &archive) {
  return archive.find("models/model.json");
}

namespace {
/// The archive's program, and the tensors that stand for its states and inputs
/// in the capture.
struct Declared {
  Pt2Program program;
  std::vector<at::Tensor> states, inputs;
};
} // namespace

static Declared declare(const ZipDirectory &archive, const DimSizes &sizes,
                        JointCapture &capture) {
  Declared declared{
      Pt2Program::read(archive, sizes, capture.getRequest().ties), {}, {}};
  capture.setFile(
      {archive.path(), archive.fileBytes(), archive.directoryHash()});
  for (const ModuleInfo &module : declared.program.modules)
    capture.addModule(module);
  for (const State &state : declared.program.states)
    declared.states.push_back(capture.addState(state));
  for (const Input &input : declared.program.inputs)
    declared.inputs.push_back(capture.addInput(input));
  return declared;
}

void fsdp::capture::capturePt2(const ZipDirectory &archive,
                               const DimSizes &sizes, JointCapture &capture) {
  auto [program, states, inputs] = declare(archive, sizes, capture);
  Pt2Interpreter interpreter(c10::kMeta, &capture.getRecorder());
  interpreter.setExportDevice(program.device);
  if (capture.hasPrecision())
    interpreter.setParamDtype([&] { return capture.getParamDtype(); });
  Pt2Backwards backwards;
  interpreter.setBackwards(&backwards);
  std::vector<NotedNorm> norms;
  if (capture.getRequest().fusesNorms)
    interpreter.setNorms(&norms);
  for (const Pt2StateInput &input : program.stateInputs)
    interpreter.bind(input.placeholder, states[input.state]);
  for (const Pt2UserInput &input : program.userInputs)
    if (input.input)
      interpreter.bind(input.placeholder, inputs[*input.input]);
    else
      interpreter.bind(input.placeholder, interpreter.evaluate(input));

  capture.run([&] {
    interpreter.run(program.getGraph());
    std::vector<LostBackward> lost = readPt2Hooks(archive);
    lost.insert(lost.end(), backwards.getLost().begin(),
                backwards.getLost().end());
    capture.setLostBackwards(std::move(lost));
    capture.setCheckpoints(backwards.getCheckpoints());
    if (capture.getRequest().fusesNorms)
      capture.setNorms(std::move(norms));
    for (const Pt2StateUpdate &update : program.updates)
      capture.setStateTensor(update.state,
                             interpreter.get(update.value).toTensor());
    std::vector<ReturnedTensor> returned;
    for (const Pt2Output &output : program.outputs)
      returned.push_back({output.path, interpreter.get(output.value).toTensor(),
                          output.value});
    return returned;
  });
}

void fsdp::capture::declarePt2(const ZipDirectory &archive,
                               const DimSizes &sizes, JointCapture &capture) {
  declare(archive, sizes, capture);
}

std::vector<CaptureProblem>
fsdp::capture::findUnsupportedPt2(const ZipDirectory &archive,
                                  const CaptureOptions &options,
                                  const DimSizes &sizes) {
  std::vector<CaptureProblem> problems;
  try {
    Pt2Program program = Pt2Program::read(archive, sizes, options.request.ties);
    findPt2Problems(program.getGraph(), problems);
  } catch (const Error &error) {
    // A file that cannot be read is no property of the model.
    if (error.id() != ErrorId::ModelNotSupported &&
        error.id() != ErrorId::DynamicDimension)
      throw;
    problems.push_back({error.id(), error.what()});
  }
  return problems;
}

std::vector<DynamicDim>
fsdp::capture::findDynamicDimsPt2(const ZipDirectory &archive,
                                  const DimSizes &sizes) {
  return Pt2Program::read(archive, sizes).dims.describe();
}
