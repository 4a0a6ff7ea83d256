//===- Capture.h - torch.export archives ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_PT2_CAPTURE_H
#define FSDP_IR_CAPTURE_PT2_CAPTURE_H

#include "ir/capture/joint/JointCapture.h"
#include "ir/capture/request/CaptureOptions.h"
#include "support/ZipDirectory.h"

namespace fsdp::capture {

/// True if the archive holds a program of torch.export.
bool isPt2(const ZipDirectory &archive);

/// Declares states and inputs of the program in `archive` and runs it, with its
/// dynamic dimensions at `sizes`. Throws Error.
void capturePt2(const ZipDirectory &archive, const DimSizes &sizes,
                JointCapture &capture);

/// Declares the states, inputs and modules alone.
void declarePt2(const ZipDirectory &archive, const DimSizes &sizes,
                JointCapture &capture);

/// What can be seen to be unsupported without running the program.
std::vector<CaptureProblem>
findUnsupportedPt2(const ZipDirectory &archive,
                   const CaptureOptions &options = {},
                   const DimSizes &sizes = {{}, /*keepExported=*/true});

/// The dynamic dimensions of the inputs. Throws Error as `capturePt2` does.
std::vector<DynamicDim> findDynamicDimsPt2(const ZipDirectory &archive,
                                           const DimSizes &sizes);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_CAPTURE_H
