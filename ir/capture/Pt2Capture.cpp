//===- Pt2Capture.cpp - torch.export archives -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/Pt2Capture.h"
#include "ir/capture/Pt2Interpreter.h"
#include "ir/capture/Pt2Operators.h"
#include "ir/capture/Pt2Program.h"

using namespace fsdp;
using namespace fsdp::capture;

bool fsdp::capture::isPt2(const ZipDirectory &archive) {
  return archive.find("models/model.json");
}

void fsdp::capture::capturePt2(const ZipDirectory &archive,
                               const DimSizes &sizes, JointCapture &capture) {
  Pt2Program program =
      Pt2Program::read(archive, sizes, capture.getRequest().ties);
  capture.setFile(
      {archive.path(), archive.fileBytes(), archive.directoryHash()});
  for (const ModuleInfo &module : program.modules)
    capture.addModule(module);

  Pt2Interpreter interpreter(c10::kMeta, &capture.getRecorder());
  interpreter.setExportDevice(program.device);
  Pt2Backwards backwards;
  interpreter.setBackwards(&backwards);
  std::vector<at::Tensor> states;
  for (const State &state : program.states)
    states.push_back(capture.addState(state));
  for (const Pt2StateInput &input : program.stateInputs)
    interpreter.bind(input.placeholder, states[input.state]);
  std::vector<at::Tensor> inputs;
  for (const Input &input : program.inputs)
    inputs.push_back(capture.addInput(input));
  for (const Pt2UserInput &input : program.userInputs)
    if (input.input)
      interpreter.bind(input.placeholder, inputs[*input.input]);
    else
      interpreter.bind(input.placeholder, interpreter.evaluate(input));

  capture.run([&] {
    interpreter.run(program.getGraph());
    capture.setLostBackwards(backwards.getLost());
    capture.setCheckpoints(backwards.getCheckpoints());
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
  Pt2Program program =
      Pt2Program::read(archive, sizes, capture.getRequest().ties);
  capture.setFile(
      {archive.path(), archive.fileBytes(), archive.directoryHash()});
  for (const ModuleInfo &module : program.modules)
    capture.addModule(module);
  for (const State &state : program.states)
    capture.addState(state);
  for (const Input &input : program.inputs)
    capture.addInput(input);
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
