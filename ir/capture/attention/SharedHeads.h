//===- SharedHeads.h - Heads that were repeated for queries -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models with fewer heads of keys than of queries repeat them in front of
// attention (unsqueeze, expand, a copy, a view). Kernels that take fewer need
// neither the copy nor the sum of its gradients.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_ATTENTION_SHAREDHEADS_H
#define FSDP_IR_CAPTURE_ATTENTION_SHAREDHEADS_H

#include "ir/capture/attention/Producers.h"
#include "ir/capture/joint/Recorder.h"

namespace fsdp::attention {

/// The tensor [batch, heads, length, width] of which `repeated` has each head
/// several times in a row, itself differentiable; undefined if there is none.
at::Tensor findSharedHeads(capture::Recorder &recorder,
                           const capture::JointGraph &graph,
                           Producers &producers, const at::Tensor &repeated);

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_SHAREDHEADS_H
