//===- Pt2Capture.h - torch.export archives ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_PT2CAPTURE_H
#define FSDP_IR_CAPTURE_PT2CAPTURE_H

#include "ir/capture/Capture.h"
#include "ir/capture/JointCapture.h"

namespace fsdp::capture {

/// Captures the .pt2 archive `options.path`. Throws Error.
void capturePt2(const CaptureOptions &options, JointCapture &capture);

/// As fsdp::findUnsupported.
std::vector<CaptureProblem> findPt2Unsupported(const CaptureOptions &options);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2CAPTURE_H
