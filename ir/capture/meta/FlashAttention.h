//===- FlashAttention.h - What flash attention alone is told ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of CUDA's kernels flash attention can be told a window, and where documents
// begin that lie one behind the other: what is not seen is not multiplied, and
// no mask is read. Both by an operator of its own, whose operands lie by
// position in front of heads.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_META_FLASHATTENTION_H
#define FSDP_IR_CAPTURE_META_FLASHATTENTION_H

#include "ir/capture/meta/AttentionReader.h"
#include "ir/capture/request/Target.h"

#include <ATen/native/transformers/sdp_utils_cpp.h>

namespace fsdp::meta {

/// The tensor with zeros behind its last dim, up to a multiple.
Tensor padLastDim(const Tensor &tensor, int64_t multiple);

/// Whether the target's kernel takes the call, positions that attend to
/// themselves, under a mask that it is told. Whatever mask and flag the call
/// has are not looked at. CPUs have no such kernel: where ranks get parts of
/// sequences the compiler makes calls of theirs (`fsdp-lower-windows`).
bool takesToldMask(const Target &target, const sdp::sdp_params &call,
                   bool sharesSequences);

/// Attention of [batch, heads, length, width] in which each position sees those
/// that `within`, All, Causal or Window, lets it see; of its own document, if
/// `bounds` is defined (DocumentReading). Heads of keys divide those of
/// queries. The call's own mask and flag do not count.
Tensor attendToldMask(const sdp::sdp_params &call, const MaskReading &within,
                      const Tensor &bounds, std::optional<double> scale);

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_FLASHATTENTION_H
