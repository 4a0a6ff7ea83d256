//===- Capture.h - From an exported model to a joint graph ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns a torch.export archive (.pt2) or a TorchScript archive (.pt) into one
// functional graph of forward and backward in the `aten` dialect. It lives in a
// library of its own, libfsdp-capture.so, which is loaded only when such a file
// comes: a process linked to LibTorch takes ten times longer to start.
//
//===----------------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_CAPTURE_H
#define FSDP_IR_CAPTURE_CAPTURE_H

#include "ir/capture/request/CaptureOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace fsdp {

/// The captured module, verified. The context has the `aten`, `fsdp` and `func`
/// dialects loaded. `outputs`, if not null, gets all that the model returns, in
/// order. Throws fsdp::Error.
mlir::OwningOpRef<mlir::ModuleOp>
captureModel(mlir::MLIRContext &context, const CaptureOptions &options,
             std::vector<OutputSummary> *outputs);

/// Every unsupported construct that can be seen without running the model.
/// Throws fsdp::Error only if the file itself cannot be read.
std::vector<CaptureProblem> findUnsupported(const CaptureOptions &options);

/// What can be said of a model without running it: its states, inputs and
/// modules, with a program that does nothing. Null if the file does not say it
/// (TorchScript). Throws fsdp::Error.
mlir::OwningOpRef<mlir::ModuleOp> describeModel(mlir::MLIRContext &context,
                                                const CaptureOptions &options);

/// The dynamic dimensions of the model's inputs. Throws fsdp::Error.
std::vector<DynamicDim> findDynamicDims(const CaptureOptions &options);

/// The library's entry points, found by name after dlopen.
struct CaptureLibrary {
  decltype(&captureModel) capture;
  decltype(&findUnsupported) unsupported;
  decltype(&findDynamicDims) dynamicDims;
  decltype(&describeModel) describe;
};
extern "C" const CaptureLibrary *fsdpCaptureLibrary();

} // namespace fsdp

#endif // FSDP_IR_CAPTURE_CAPTURE_H
