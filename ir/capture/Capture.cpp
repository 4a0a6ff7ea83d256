//===- Capture.cpp - From an exported model to a joint graph --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/Capture.h"
#include "ir/capture/JointCapture.h"
#include "ir/capture/ModuleBuilder.h"
#include "ir/capture/Pt2Capture.h"
#include "ir/capture/TorchScript.h"

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

mlir::OwningOpRef<mlir::ModuleOp>
fsdp::captureModel(mlir::MLIRContext &context, const CaptureOptions &options) {
  // By what the archive holds, not by its name.
  ZipDirectory archive = ZipDirectory::read(options.path);
  JointCapture capture;
  if (isPt2(archive))
    capturePt2(archive, capture);
  else if (isTorchScript(archive))
    captureTorchScript(archive, options, capture);
  else
    refuse(archive);
  return buildModule(context, capture.take());
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
