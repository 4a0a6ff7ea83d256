//===- AttentionChoice.cpp - Which attention kernel takes a call ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's own rules ask the current CUDA device for its properties, and
// there need not be one. Those that do not are called; those that do are
// written here for a `Target`.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/AttentionChoice.h"

#include <ATen/ops/_fused_sdp_choice_native.h>

#include <array>

using namespace fsdp;
using sdp::sdp_params;

namespace {

int64_t headDim(const at::Tensor &tensor) { return tensor.size(-1); }

/// Sixteen-bit floats; bfloat16 came with compute capability 8.
bool isLowPrecision(const Target &target, const sdp_params &call) {
  static constexpr auto both = std::to_array({at::kHalf, at::kBFloat16});
  static constexpr auto half = std::to_array({at::kHalf});
  return target.getMajor() >= 8 ? sdp::check_tensor_dtype(call, both, false)
                                : sdp::check_tensor_dtype(call, half, false);
}

//===----------------------------------------------------------------------===//
// cuDNN
//===----------------------------------------------------------------------===//

bool fitsCudnnShapes(const Target &target, const sdp_params &call) {
  int64_t keyDim = headDim(call.query), valueDim = headDim(call.value);
  int64_t limit = target.capability == 90 ? 256 : 128;
  if (target.getMajor() == 10 && keyDim == 192 && valueDim == 128)
    limit = 192;
  if (keyDim > limit || valueDim > limit || keyDim % 8 || valueDim % 8)
    return false;
  if (call.key.size(2) == 1)
    return false;
  return call.dropout == 0 || call.query.size(2) != 1;
}

/// What LibTorch leaves to cuDNN 9.19 and it computes wrongly, as reported:
/// with a mask, a last tile of keys that is not whole makes the gradient of the
/// queries NaN (pytorch/pytorch#196678); on 10.x the output of fewer than 8
/// groups of heads is not the others' (#193893).
bool isWrongInCudnn(const Target &target, const sdp_params &call) {
  constexpr int64_t tile = 128, groups = 8;
  bool isMasked = call.attn_mask && call.attn_mask->defined();
  bool isGrouped = call.key.size(1) != call.query.size(1);
  return (isMasked && call.key.size(2) % tile != 0) ||
         (isGrouped && target.getMajor() == 10 && call.key.size(1) < groups);
}

/// Its backward adds up in no fixed order (LibTorch,
/// check_cudnn_deterministic).
bool takesCudnn(const Target &target, const sdp_params &call) {
  return !target.isDeterministic && sdp::check_tensor_shapes(call, false) &&
         isLowPrecision(target, call) &&
         sdp::check_attn_mask_shape(call, false) && target.isBetween(80, 121) &&
         sdp::check_nonzero_sequence_lengths_dense(call, false) &&
         sdp::check_last_dim_stride_equals_1_dense<true>(call, false) &&
         sdp::check_batch_size_and_num_heads_dense<true, false>(call, false) &&
         fitsCudnnShapes(target, call) && !isWrongInCudnn(target, call);
}

//===----------------------------------------------------------------------===//
// Flash attention
//===----------------------------------------------------------------------===//

bool hasFlashHeadDims(const sdp_params &call) {
  int64_t dim = headDim(call.query);
  return dim == headDim(call.key) && dim == headDim(call.value) && dim <= 256;
}

/// The backward kernel of wide heads does not fit these devices' shared memory.
bool hasFlashBackward(const Target &target, const sdp_params &call) {
  if (!sdp::input_requires_grad(call) ||
      !(target.isBetween(86, 89) || target.isBetween(120, 121)))
    return true;
  int64_t dim = headDim(call.query);
  return dim <= 192 || (dim > 224 && call.dropout == 0);
}

} // namespace

bool meta::takesFlash(const Target &target, const sdp_params &call) {
  return sdp::check_tensor_shapes(call, false) &&
         sdp::check_for_attn_mask(call, false) && hasFlashHeadDims(call) &&
         target.isBetween(80, 121) && hasFlashBackward(target, call) &&
         !(call.is_causal && call.query.size(-2) != call.key.size(-2)) &&
         isLowPrecision(target, call) &&
         sdp::check_batch_size_and_num_heads_dense<true, true>(call, false) &&
         sdp::check_nonzero_sequence_lengths_dense(call, false) &&
         sdp::check_last_dim_stride_equals_1_dense<true>(call, false);
}

namespace {

//===----------------------------------------------------------------------===//
// Memory-efficient attention
//===----------------------------------------------------------------------===//

/// Elements that the matrix units want a row to be a multiple of.
int64_t getGemmAlignment(const Target &target, const sdp_params &call) {
  bool half = call.query.scalar_type() == at::kHalf ||
              call.query.scalar_type() == at::kBFloat16;
  bool tensorCores = target.getMajor() >= 8 || (target.getMajor() == 7 && half);
  int64_t alignment = target.getMajor() >= 8 ? 4 : 1;
  if (tensorCores)
    alignment = std::max<int64_t>(alignment, 128 / (half ? 16 : 32));
  return alignment;
}

bool hasEfficientHeadDims(const Target &target, const sdp_params &call) {
  int64_t alignment = getGemmAlignment(target, call);
  int64_t dim = headDim(call.query), valueDim = headDim(call.value);
  return dim == headDim(call.key) && dim > 0 && valueDim > 0 &&
         dim % alignment == 0 && valueDim % alignment == 0;
}

} // namespace

bool meta::takesEfficient(const Target &target, const sdp_params &call) {
  static constexpr auto older = std::to_array({at::kHalf, at::kFloat});
  static constexpr auto newer =
      std::to_array({at::kHalf, at::kFloat, at::kBFloat16});
  return target.isBetween(50, 121) && sdp::check_tensor_shapes(call, false) &&
         hasEfficientHeadDims(target, call) &&
         sdp::check_nonzero_sequence_lengths_dense(call, false) &&
         sdp::check_last_dim_stride_equals_1_dense<false>(call, false) &&
         sdp::check_batch_size_and_num_heads_dense<false, true>(call, false) &&
         (target.getMajor() >= 8 ? sdp::check_tensor_dtype(call, newer, false)
                                 : sdp::check_tensor_dtype(call, older, false));
}

at::SDPBackend meta::chooseAttention(const Target &target,
                                     const sdp_params &call,
                                     std::optional<double> scale) {
  if (target.device == Target::Device::Cpu)
    return static_cast<at::SDPBackend>(at::native::_fused_sdp_choice_cpp(
        call.query, call.key, call.value, call.attn_mask, call.dropout,
        call.is_causal, scale, call.enable_gqa));
  // cuDNN is preferred where it is the fastest, and else comes last, behind
  // the decomposition, which takes everything.
  if ((target.getMajor() == 9 || target.getMajor() == 10) &&
      takesCudnn(target, call))
    return at::SDPBackend::cudnn_attention;
  if (takesFlash(target, call))
    return at::SDPBackend::flash_attention;
  if (takesEfficient(target, call))
    return at::SDPBackend::efficient_attention;
  return at::SDPBackend::math;
}
