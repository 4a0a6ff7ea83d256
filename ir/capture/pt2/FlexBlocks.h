//===- FlexBlocks.h - Blocks that flex_attention computes -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_PT2_FLEXBLOCKS_H
#define FSDP_IR_CAPTURE_PT2_FLEXBLOCKS_H

#include "ir/capture/pt2/FlexAttention.h"

namespace fsdp::capture {

/// PyTorch's kernels compute the blocks of keys that tables list, and ask the
/// mask in some of them only. Throws Error where that is something else than
/// the mask says, as far as both are known. `mask` is undefined if all is seen;
/// `reading` is of it.
void checkPt2FlexBlocks(const Pt2FlexCall &call, const at::Tensor &mask,
                        const meta::MaskReading &reading);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_FLEXBLOCKS_H
