//===- Capture.cpp - From an exported model to a joint graph --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/Capture.h"
#include "ir/capture/attention/Reader.h"
#include "ir/capture/joint/JointCapture.h"
#include "ir/capture/joint/Simplify.h"
#include "ir/capture/meta/TargetScope.h"
#include "ir/capture/module/AttributeBuilder.h"
#include "ir/capture/module/ModuleBuilder.h"
#include "ir/capture/pt2/Capture.h"
#include "ir/capture/request/Bindings.h"
#include "ir/capture/torchscript/TorchScript.h"
#include "ir/fsdp/Fsdp.h"

#include "support/LossWeight.h"

#include "mlir/IR/Builders.h"

using namespace fsdp;
using namespace fsdp::capture;

/// Neither kind of program.
[[noreturn]] static void refuse(const ZipDirectory &archive) {
  throw Error(ErrorId::NotAProgram,
              "'" + archive.path() + "' holds no program" +
                  (archive.find("data.pkl")
                       ? ", only tensors that torch.save wrote"
                       : "") +
                  "; export the model with torch.export.save (.pt2) or "
                  "torch.jit.save (.pt)");
}

static OutputSummary summarize(mlir::MLIRContext &context, const Output &output,
                               bool isLoss) {
  mlir::Builder builder(&context);
  std::string dtype;
  llvm::raw_string_ostream(dtype) << getElementType(builder, output.type.dtype);
  return {output.name, dtype, output.type.sizes, output.isKept || isLoss};
}

/// A .pt states no shapes, so none of its dimensions has a name.
static void checkNoDims(const CaptureOptions &options) {
  if (!options.dims.empty())
    throw Error(ErrorId::InputNotKnown,
                "--dim=" + options.dims.front().name + ": '" + options.path +
                    "' is TorchScript, which has no named dimensions; give "
                    "the shapes of its inputs with --input=NAME:f32[4,64]");
}

static void checkNoNorms(const CaptureOptions &options) {
  if (options.request.fusesNorms)
    throw Error(ErrorId::ConfigNotSupported,
                "'" + options.path +
                    "' is TorchScript, in which norms that are written out are "
                    "not looked for; leave norms: fused out, or export the "
                    "model with torch.export");
}

/// Nothing if a mask was read from a state that the step writes, which is known
/// only at its end.
static std::optional<JointGraph> captureProgram(const ZipDirectory &archive,
                                                const CaptureOptions &options,
                                                const Binding &binding,
                                                bool readsStates) {
  JointCapture capture(options.request);
  attention::Reader reader(capture, options.request, readsStates);
  meta::AttentionReaderScope scope(reader);
  if (isPt2(archive)) {
    capturePt2(archive, binding.dims, capture);
  } else if (isTorchScript(archive)) {
    checkNoDims(options);
    checkNoNorms(options);
    CaptureOptions own = options;
    own.inputs = binding.inputs;
    captureTorchScript(archive, own, capture);
  } else {
    refuse(archive);
  }
  JointGraph graph = capture.take();
  if (reader.hasReadChanged(graph))
    return std::nullopt;
  return graph;
}

mlir::OwningOpRef<mlir::ModuleOp>
fsdp::captureModel(mlir::MLIRContext &context, const CaptureOptions &options,
                   std::vector<OutputSummary> *outputs) {
  // By what the archive holds, not by its name.
  ZipDirectory archive = ZipDirectory::read(options.path);
  meta::TargetScope target(options.target);
  std::vector<CapturedProgram> programs;
  for (const Binding &binding : getBindings(options)) {
    std::optional<JointGraph> graph =
        captureProgram(archive, options, binding, /*readsStates=*/true);
    if (!graph)
      graph = captureProgram(archive, options, binding, /*readsStates=*/false);
    programs.push_back({binding.label, std::move(*graph)});
  }
  const JointGraph &first = programs.front().graph;
  if (outputs)
    for (const Output &output : first.outputs)
      if (output.name != kLossWeight)
        outputs->push_back(
            summarize(context, output,
                      !first.isInference && &output == &first.outputs.front()));
  std::vector<JointGraph *> graphs;
  for (CapturedProgram &program : programs)
    graphs.push_back(&program.graph);
  dropUnusedStates(graphs);
  mlir::OwningOpRef<mlir::ModuleOp> module = buildModule(context, programs);
  if (options.target.device != Target::Device::Cpu)
    (*module)->setAttr(kDeviceAttr, mlir::StringAttr::get(
                                        &context, options.target.describe()));
  return module;
}

std::vector<CaptureProblem>
fsdp::findUnsupported(const CaptureOptions &options) {
  ZipDirectory archive = ZipDirectory::read(options.path);
  if (isPt2(archive))
    return findUnsupportedPt2(archive, options,
                              getBindings(options).front().dims);
  if (isTorchScript(archive))
    return findUnsupportedTorchScript(archive);
  refuse(archive);
}

mlir::OwningOpRef<mlir::ModuleOp>
fsdp::describeModel(mlir::MLIRContext &context, const CaptureOptions &options) {
  ZipDirectory archive = ZipDirectory::read(options.path);
  if (!isPt2(archive))
    return {};
  JointCapture capture(options.request);
  declarePt2(archive, getBindings(options).front().dims, capture);
  CapturedProgram program{"", capture.take()};
  return buildModule(context, program);
}

std::vector<DynamicDim> fsdp::findDynamicDims(const CaptureOptions &options) {
  ZipDirectory archive = ZipDirectory::read(options.path);
  if (!isPt2(archive))
    return {};
  std::vector<DynamicDim> all;
  for (const Binding &binding : getBindings(options)) {
    std::vector<DynamicDim> dims = findDynamicDimsPt2(archive, binding.dims);
    if (all.empty())
      all = std::move(dims);
    else
      for (size_t i = 0; i < all.size(); ++i)
        all[i].bound.push_back(dims[i].bound.front());
  }
  return all;
}

const CaptureLibrary *fsdp::fsdpCaptureLibrary() {
  static constexpr CaptureLibrary library = {&captureModel, &findUnsupported,
                                             &findDynamicDims, &describeModel};
  return &library;
}
