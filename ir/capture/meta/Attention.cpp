//===- Attention.cpp - Fused attention without data -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `scaled_dot_product_attention` picks an implementation by its arguments'
// device. On meta tensors that would be the decomposed one; above autograd it
// is therefore replaced by the choice that the target device makes, so that the
// fused operator and its fused backward are what is captured.
//
// Attention with dropout is decomposed on every device. The fused kernels of
// CUDA draw from LibTorch's generator, and such a draw can neither be told
// apart by rank nor be repeated.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/AttentionChoice.h"
#include "ir/capture/meta/AttentionReader.h"
#include "ir/capture/meta/BlockAttention.h"
#include "ir/capture/meta/FlashAttention.h"
#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/constant_pad_nd.h>

#include <cmath>
#include <limits>

using namespace fsdp;
using namespace fsdp::meta;

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// A mask that is added to the scores, out of one that says which take part:
/// `masked` where they do not.
static OptionalTensor
additiveMask(const OptionalTensor &mask, at::ScalarType dtype,
             double masked = -std::numeric_limits<double>::infinity()) {
  if (!given(mask) || mask->scalar_type() != at::kBool)
    return mask;
  AttentionReader *reader = getAttentionReader();
  return reader ? reader->getAdded(*mask, dtype, masked)
                : makeAdded(*mask, dtype, masked);
}

/// The CUDA kernel takes head sizes that are multiples of 8.
static Tensor callFlash(const sdp::sdp_params &call,
                        std::optional<double> scale) {
  int64_t width = call.query.size(-1);
  Tensor output = std::get<0>(at::_scaled_dot_product_flash_attention(
      padLastDim(call.query, 8), padLastDim(call.key, 8),
      padLastDim(call.value, 8), call.dropout, call.is_causal,
      /*return_debug_mask=*/false, scale.value_or(1 / std::sqrt(width))));
  return output.size(-1) == width ? output : output.slice(-1, 0, width);
}

/// The mask's rows must start at multiples of 8 elements.
static Tensor alignMask(const Tensor &mask, const sdp::sdp_params &call) {
  Tensor aligned = mask;
  bool fits = mask.stride(-1) == 1;
  for (int64_t dim = 0; dim + 1 < mask.dim(); ++dim)
    fits &= mask.stride(dim) % 8 == 0;
  // Padded by a whole row of 8 if only the strides do not fit.
  if (!fits)
    aligned = at::constant_pad_nd(mask, {0, 8 - mask.size(-1) % 8})
                  .slice(-1, 0, mask.size(-1));
  return aligned.expand({call.query.size(0), call.query.size(1),
                         call.query.size(2), call.key.size(2)});
}

/// Fused kernels take rows without gaps; a mask that is expanded along them, or
/// lies otherwise (a table of biases by head, transposed), gets rows of its
/// own: one copy for all layers, where LibTorch would decompose each call.
static OptionalTensor giveRows(const OptionalTensor &mask) {
  bool hasGaps = given(mask) && mask->dim() > 0 && mask->stride(-1) != 1;
  return hasGaps ? OptionalTensor(mask->contiguous()) : mask;
}

/// The call with keys and values as they were before a model repeated their
/// heads, or left that to broadcasting; the call itself if it did not.
static sdp::sdp_params shareHeads(const sdp::sdp_params &call) {
  AttentionReader *reader = getAttentionReader();
  int64_t queries = call.query.dim() == 4 ? call.query.size(1) : 0;
  if (!reader || queries < 2 || call.key.dim() != 4 || call.value.dim() != 4)
    return call;
  sdp::sdp_params shared = call;
  shared.key = reader->findSharedHeads(call.key, queries);
  if (!shared.key.defined())
    return call;
  shared.value = reader->findSharedHeads(call.value, queries);
  if (!shared.value.defined() || shared.key.size(1) != shared.value.size(1))
    return call;
  shared.enable_gqa = true;
  return shared;
}

/// The call with keys and values of as many heads as the queries.
static sdp::sdp_params repeatHeads(const sdp::sdp_params &call) {
  sdp::sdp_params repeated = call;
  if (call.query.dim() != 4 || call.key.dim() != 4 || call.value.dim() != 4)
    return call;
  for (Tensor *each : {&repeated.key, &repeated.value}) {
    int64_t heads = each->size(1);
    if (heads == 0 || call.query.size(1) % heads != 0 ||
        !(call.enable_gqa || heads == 1))
      return call;
    if (heads != call.query.size(1))
      *each = each->unsqueeze(2)
                  .expand({-1, -1, call.query.size(1) / heads, -1, -1})
                  .flatten(1, 2);
  }
  repeated.enable_gqa = false;
  return repeated;
}

static int rank(at::SDPBackend backend) {
  switch (backend) {
  case at::SDPBackend::cudnn_attention:
    return 3;
  case at::SDPBackend::flash_attention:
    return 2;
  case at::SDPBackend::efficient_attention:
    return 1;
  default:
    return 0;
  }
}

/// The form of a call, by how many heads it has, that the fastest kernel takes:
/// of equals the one with the fewest.
static std::pair<sdp::sdp_params, at::SDPBackend>
chooseCall(const Target &target, const sdp::sdp_params &call,
           std::optional<double> scale) {
  if (call.dropout > 0)
    return {call, at::SDPBackend::math};
  sdp::sdp_params best = shareHeads(call);
  at::SDPBackend backend = chooseAttention(target, best, scale);
  if (best.enable_gqa && !call.enable_gqa)
    if (at::SDPBackend other = chooseAttention(target, call, scale);
        rank(other) > rank(backend)) {
      best = call;
      backend = other;
    }
  if (rank(backend) == 3 || best.key.dim() != 4 ||
      best.key.size(1) == best.query.size(1))
    return {best, backend};
  sdp::sdp_params repeated = repeatHeads(best);
  if (at::SDPBackend other = chooseAttention(target, repeated, scale);
      rank(other) > rank(backend))
    return {repeated, other};
  return {best, backend};
}

/// Why no fused kernel takes it.
static std::string findObstacle(const sdp::sdp_params &call) {
  if (call.dropout > 0)
    return "it has dropout";
  if (call.query.dim() != 4)
    return "its operands have " + std::to_string(call.query.dim()) +
           " dims, not 4";
  if (getTarget().device == Target::Device::Cpu && given(call.attn_mask) &&
      call.attn_mask->requires_grad())
    return "its mask is learned, to which kernels for CPUs give no gradient";
  return "no fused kernel of the device takes " +
         std::string(c10::toString(call.query.scalar_type())) +
         " operands of these shapes";
}

static AttentionCall describe(const sdp::sdp_params &call,
                              at::SDPBackend backend,
                              std::optional<MaskForm> mask) {
  static constexpr std::array<std::string_view, 4> names = {"math", "efficient",
                                                            "flash", "cudnn"};
  AttentionCall described{mask, names[size_t(rank(backend))], {}};
  if (rank(backend) == 0)
    described.why = findObstacle(call);
  else if (call.key.dim() == 4 && call.key.size(1) > 0)
    described.sharing = call.query.size(1) / call.key.size(1);
  return described;
}

/// By the kernel that the target chooses; says in `became` what it is, under a
/// mask of that form.
static Tensor attend(const sdp::sdp_params &wanted, std::optional<double> scale,
                     std::optional<MaskForm> mask, AttentionCall &became) {
  const Target &target = getTarget();
  sdp::sdp_params original = wanted;
  original.attn_mask = giveRows(wanted.attn_mask);
  auto [call, backend] = chooseCall(target, original, scale);
  became = describe(call, backend, mask);
  if (backend == at::SDPBackend::cudnn_attention)
    // cuDNN knows no infinity.
    return std::get<0>(at::_scaled_dot_product_cudnn_attention(
        call.query, call.key, call.value,
        additiveMask(call.attn_mask, call.query.scalar_type(), -65504),
        sdp::input_requires_grad(call), call.dropout, call.is_causal,
        /*return_debug_mask=*/false, scale));
  OptionalTensor added = additiveMask(call.attn_mask, call.query.scalar_type());
  if (backend == at::SDPBackend::efficient_attention)
    return std::get<0>(at::_scaled_dot_product_efficient_attention(
        call.query, call.key, call.value,
        given(added) ? OptionalTensor(alignMask(*added, call)) : added,
        sdp::input_requires_grad(call), call.dropout, call.is_causal, scale));
  if (backend == at::SDPBackend::flash_attention)
    return target.device == Target::Device::Cuda
               ? callFlash(call, scale)
               : std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
                     call.query, call.key, call.value, call.dropout,
                     call.is_causal, added, scale));
  return std::get<0>(at::_scaled_dot_product_attention_math(
      original.query, original.key, original.value, added, original.dropout,
      original.is_causal, std::nullopt, scale, original.enable_gqa));
}

/// Undefined where attention is one call.
static Tensor attendInBlocks(AttentionReader &reader,
                             const sdp::sdp_params &original,
                             const MaskReading &mask,
                             std::optional<double> scale,
                             AttentionCall &became) {
  if (!mask.blocks || mask.blocks->empty() || original.query.dim() != 4 ||
      original.key.dim() != 4 || original.dropout > 0)
    return {};
  sdp::sdp_params call = shareHeads(original);
  return attendBlocks(*mask.blocks, call.query, call.key, call.value,
                      [&](const AttentionBlock &block, const Tensor &query,
                          const Tensor &key, const Tensor &value) {
                        sdp::sdp_params part = {
                            query, key, value, {}, 0.0, false, call.enable_gqa};
                        part.is_causal = block.form == MaskForm::Causal;
                        if (block.form == MaskForm::Ranges)
                          part.attn_mask = reader.getRanges(
                              block.begin, block.end, block.keys());
                        return attend(part, scale, mask.form, became);
                      });
}

/// By the kernel that can be told what the mask says; undefined where none can.
static Tensor attendTold(AttentionReader &reader,
                         const sdp::sdp_params &original,
                         const MaskReading &mask, std::optional<double> scale,
                         AttentionCall &became) {
  sdp::sdp_params call = shareHeads(original);
  if (!takesToldMask(getTarget(), call, reader.sharesSequences()))
    return {};
  MaskReading within = mask;
  Tensor bounds;
  if (mask.form == MaskForm::Unknown || mask.form == MaskForm::Ranges) {
    std::optional<DocumentReading> documents = reader.readDocuments(
        *original.attn_mask, mask, call.query.size(0), call.query.size(2));
    if (!documents)
      return {};
    within = documents->within;
    bounds = documents->bounds;
  } else if (mask.form != MaskForm::Window) {
    return {};
  }
  became = describe(call, at::SDPBackend::flash_attention,
                    bounds.defined() ? MaskForm::Documents : mask.form);
  return attendToldMask(call, within, bounds, scale);
}

/// Of keys that data hides, whether cuDNN, which adds a mask for each query, is
/// to take the call `dense` rather than efficient attention `told`. That has
/// half the rate (docs/Rationale/Simulate.md), and multiplies half if it is
/// told what is causal: then one takes as long as the other, and what they hold
/// decides. Keys and values of each head are held for each layer, a mask and
/// what backward adds up in float32 (CudaScratch.cpp: five tensors as large as
/// the queries more than cuDNN) once.
static bool prefersDense(const sdp::sdp_params &dense,
                         const sdp::sdp_params &told) {
  constexpr int64_t kSums = 5 * 4;
  if (!told.is_causal || dense.key.size(1) != told.key.size(1))
    return true;
  int64_t mask = told.query.size(0) * told.query.size(2) * told.key.size(2) *
                 int64_t(told.query.element_size());
  return mask < kSums * told.query.numel();
}

/// Of keys that data hides from all queries of a row: efficient attention adds
/// a vector, and is told what is causal. Undefined where a mask is added for
/// each query.
static Tensor attendPadded(AttentionReader &reader,
                           const sdp::sdp_params &original,
                           const MaskReading &mask, std::optional<double> scale,
                           MaskForm &form, AttentionCall &became) {
  const Target &target = getTarget();
  sdp::sdp_params call = repeatHeads(original);
  if (target.device == Target::Device::Cpu || mask.form != MaskForm::Unknown ||
      call.dropout > 0 || call.query.dim() != 4)
    return {};
  call.attn_mask = std::nullopt;
  if (!takesEfficient(target, call))
    return {};
  std::optional<PaddingReading> padding =
      reader.readPadding(*original.attn_mask, call.query.size(0),
                         call.query.size(2), call.key.size(2));
  if (!padding)
    return {};
  call.is_causal = padding->within == MaskForm::Causal;
  sdp::sdp_params masked = original;
  masked.attn_mask = giveRows(original.attn_mask);
  auto [dense, backend] = chooseCall(target, masked, scale);
  form = MaskForm::AddedPadding;
  if (backend == at::SDPBackend::cudnn_attention && prefersDense(dense, call))
    return {};
  form = call.is_causal ? MaskForm::CausalPadding : MaskForm::Padding;
  became = describe(call, at::SDPBackend::efficient_attention, form);
  Tensor added = *additiveMask(padding->seen, call.query.scalar_type());
  return std::get<0>(at::_scaled_dot_product_efficient_attention(
      call.query, call.key, call.value, alignMask(added, call),
      sdp::input_requires_grad(call), call.dropout, call.is_causal, scale));
}

static Tensor attention(const Tensor &query, const Tensor &key,
                        const Tensor &value, const OptionalTensor &mask,
                        double dropout, bool causal,
                        std::optional<double> scale, bool grouped) {
  sdp::sdp_params call = {query, key, value, mask, dropout, causal, grouped};
  AttentionReader *reader = getAttentionReader();
  std::optional<MaskForm> form;
  if (causal || given(mask))
    form = causal ? MaskForm::Causal : MaskForm::Unknown;
  AttentionCall became;
  Tensor output;
  if (reader && given(mask) && !causal && query.dim() >= 2 && key.dim() >= 2) {
    MaskReading reading = reader->read(*mask, query.size(-2), key.size(-2));
    if (reading.form == MaskForm::All || reading.form == MaskForm::Causal) {
      call.attn_mask = std::nullopt;
      call.is_causal = reading.form == MaskForm::Causal;
      form = reading.form;
    } else {
      output = attendTold(*reader, call, reading, scale, became);
      if (!output.defined())
        output = attendPadded(*reader, call, reading, scale, *form, became);
      if (!output.defined())
        output = attendInBlocks(*reader, call, reading, scale, became);
    }
  }
  if (!output.defined())
    output = attend(call, scale, form, became);
  if (reader)
    reader->note(became);
  return output;
}

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) {
  m.impl("scaled_dot_product_attention", attention);
}
