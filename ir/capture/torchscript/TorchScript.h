//===- TorchScript.h - Captures models of torch.jit.save --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The front end for .pt files, traced or scripted: the module runs under
// TorchScript's interpreter with tensors of the joint capture in the place of
// its own. Control flow on shapes and constants is followed; the step that is
// captured is the one taken with the given input shapes, in the mode (train or
// eval) in which the module was saved.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_TORCHSCRIPT_TORCHSCRIPT_H
#define FSDP_IR_CAPTURE_TORCHSCRIPT_TORCHSCRIPT_H

#include "ir/capture/joint/JointCapture.h"
#include "ir/capture/request/CaptureOptions.h"
#include "support/ZipDirectory.h"

namespace fsdp::capture {

/// True if the archive holds a TorchScript program (not just weights).
bool isTorchScript(const ZipDirectory &archive);

/// Declares states and inputs of the module in `archive` and runs its
/// `forward`. The shapes of the inputs come from `options.inputs`, by argument
/// name. Throws Error.
void captureTorchScript(const ZipDirectory &archive,
                        const CaptureOptions &options, JointCapture &capture);

/// What can be seen to be unsupported without running the module.
std::vector<CaptureProblem>
findUnsupportedTorchScript(const ZipDirectory &archive);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_TORCHSCRIPT_TORCHSCRIPT_H
