//===- AttentionChoice.h - Which attention kernel takes a call --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_META_ATTENTIONCHOICE_H
#define FSDP_IR_CAPTURE_META_ATTENTIONCHOICE_H

#include "ir/capture/request/Target.h"

#include <ATen/native/transformers/sdp_utils_cpp.h>

namespace fsdp::meta {

/// The kernel that LibTorch 2.11 would use for this call on `target`: `math`
/// where no fused one takes the arguments. For CUDA the rules are those of
/// aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, with the cuDNN 9.19
/// that LibTorch's wheel brings, less what that is known to compute wrongly.
/// `arguments` are meta tensors; whether they require gradients matters.
at::SDPBackend chooseAttention(const Target &target,
                               const sdp::sdp_params &arguments,
                               std::optional<double> scale);

/// Whether flash attention takes the call on `target`, a GPU.
bool takesFlash(const Target &target, const sdp::sdp_params &arguments);

/// Whether efficient attention takes the call on `target`, a GPU.
bool takesEfficient(const Target &target, const sdp::sdp_params &arguments);

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_ATTENTIONCHOICE_H
