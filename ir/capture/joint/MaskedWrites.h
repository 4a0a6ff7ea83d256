//===- MaskedWrites.h - Numbers written where a mask is true ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_JOINT_MASKEDWRITES_H
#define FSDP_IR_CAPTURE_JOINT_MASKEDWRITES_H

#include "ir/capture/joint/JointGraph.h"

namespace fsdp::capture {

/// Turns writes of one element where a mask is true, `x[mask] = y`, into
/// choices between both, `where(mask, y, x)`, which give the same bits. As they
/// are, LibTorch's kernels for GPUs let the host count what the mask selects,
/// or read the element. `graph` was simplified.
void chooseByMasks(JointGraph &graph);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_MASKEDWRITES_H
