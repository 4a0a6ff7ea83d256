//===- Capture.cpp - From an exported model to a joint graph --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/Capture.h"
#include "ir/capture/AttributeBuilder.h"
#include "ir/capture/JointCapture.h"
#include "ir/capture/ModuleBuilder.h"
#include "ir/capture/Pt2Capture.h"
#include "ir/capture/TorchScript.h"
#include "ir/capture/meta/TargetScope.h"
#include "ir/fsdp/Fsdp.h"

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

mlir::OwningOpRef<mlir::ModuleOp>
fsdp::captureModel(mlir::MLIRContext &context, const CaptureOptions &options,
                   std::vector<OutputSummary> *outputs) {
  // By what the archive holds, not by its name.
  ZipDirectory archive = ZipDirectory::read(options.path);
  meta::TargetScope target(options.target);
  JointCapture capture(options.request);
  if (isPt2(archive))
    capturePt2(archive, capture);
  else if (isTorchScript(archive))
    captureTorchScript(archive, options, capture);
  else
    refuse(archive);
  JointGraph graph = capture.take();
  if (outputs)
    for (const Output &output : graph.outputs)
      outputs->push_back(
          summarize(context, output,
                    !graph.isInference && &output == &graph.outputs.front()));
  mlir::OwningOpRef<mlir::ModuleOp> module = buildModule(context, graph);
  if (options.target.device != Target::Device::Cpu)
    (*module)->setAttr(kDeviceAttr, mlir::StringAttr::get(
                                        &context, options.target.describe()));
  return module;
}

std::vector<CaptureProblem>
fsdp::findUnsupported(const CaptureOptions &options) {
  ZipDirectory archive = ZipDirectory::read(options.path);
  if (isPt2(archive))
    return findUnsupportedPt2(archive);
  if (isTorchScript(archive))
    return findUnsupportedTorchScript(archive);
  refuse(archive);
}

const CaptureLibrary *fsdp::fsdpCaptureLibrary() {
  static constexpr CaptureLibrary library = {&captureModel, &findUnsupported};
  return &library;
}
