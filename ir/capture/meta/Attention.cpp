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

#include <ATen/OpMathType.h>
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
        output = attendInBlocks(*reader, call, reading, scale, became);
    }
  }
  if (!output.defined())
    output = attend(call, scale, form, became);
  if (reader)
    reader->note(became);
  return output;
}

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

/// Sizes [batch, heads, length, width], laid out as [batch, length, heads,
/// width].
static Tensor byPosition(const Tensor &like, int64_t width) {
  return contiguous({like.size(0), like.size(2), like.size(1), width}, like)
      .transpose(1, 2);
}

static Two flash(const Tensor &query, const Tensor &, const Tensor &, double,
                 bool, const OptionalTensor &, std::optional<double>) {
  Tensor sums = contiguous({query.size(0), query.size(2), query.size(1)}, query,
                           at::toOpMathType(query.scalar_type()));
  return {at::empty_like(query), sums.transpose(1, 2)};
}

static Three flashBackward(const Tensor &, const Tensor &query,
                           const Tensor &key, const Tensor &value,
                           const Tensor &, const Tensor &, double, bool,
                           const OptionalTensor &, std::optional<double>) {
  return {byPosition(query, query.size(3)), byPosition(key, key.size(3)),
          byPosition(value, value.size(3))};
}

//===----------------------------------------------------------------------===//
// CUDA
//===----------------------------------------------------------------------===//

namespace {

/// Flash and cuDNN: output, sums, two that only nested tensors have, lengths of
/// queries and keys, state of the generator in two parts, debug mask.
using Fused = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt,
                         c10::SymInt, Tensor, Tensor, Tensor>;

Fused flashCuda(const Tensor &query, const Tensor &key, const Tensor &, double,
                bool, bool, std::optional<double>) {
  Tensor sums = contiguous({query.size(0), query.size(1), query.size(2)}, query,
                           at::kFloat);
  return {at::empty_like(query),
          sums,
          Tensor(),
          Tensor(),
          query.size(2),
          key.size(2),
          contiguous({2}, query, at::kUInt64),
          contiguous({}, query, at::kUInt64),
          contiguous({0}, query)};
}

Three flashCudaBackward(const Tensor &, const Tensor &query, const Tensor &key,
                        const Tensor &value, const Tensor &, const Tensor &,
                        const Tensor &, const Tensor &, int64_t, int64_t,
                        double, bool, const Tensor &, const Tensor &,
                        std::optional<double>) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

/// Sizes of the output, in the query's order of dims in memory.
Tensor inOrderOf(const Tensor &query, IntArrayRef sizes) {
  if (query.sizes() == sizes)
    return at::empty_like(query);
  std::array<int64_t, 4> order = {0, 1, 2, 3}, strides;
  // The fastest first; of equal strides the first dim.
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::max<int64_t>(query.stride(a), 1) <
           std::max<int64_t>(query.stride(b), 1);
  });
  int64_t stride = 1;
  for (int64_t dim : order) {
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  return at::empty_strided(sizes, strides, query.options());
}

Fused cudnn(const Tensor &query, const Tensor &key, const Tensor &value,
            const OptionalTensor &, bool needsSums, double, bool, bool,
            std::optional<double>) {
  Tensor output = inOrderOf(
      query, {query.size(0), query.size(1), query.size(2), value.size(3)});
  Tensor sums =
      needsSums ? contiguous({query.size(0), query.size(1), query.size(2), 1},
                             query, at::kFloat)
                : Tensor();
  return {output,
          sums,
          Tensor(),
          Tensor(),
          query.size(2),
          key.size(2),
          contiguous({}, query, at::kLong),
          contiguous({}, query, at::kLong),
          Tensor()};
}

Three cudnnBackward(const Tensor &, const Tensor &query, const Tensor &key,
                    const Tensor &value, const Tensor &, const Tensor &,
                    const Tensor &, const Tensor &, const Tensor &,
                    const Tensor &, const Tensor &, int64_t, int64_t, double,
                    bool, std::optional<double>) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

/// The kernel writes sums by blocks of 32 queries.
Four efficient(const Tensor &query, const Tensor &, const Tensor &value,
               const OptionalTensor &, bool needsSums, double, bool,
               std::optional<double>) {
  int64_t length = needsSums ? (query.size(2) + 31) / 32 * 32 : 0;
  return {byPosition(query, value.size(3)),
          contiguous({query.size(0), query.size(1), length}, query, at::kFloat),
          contiguous({}, query, at::kLong), contiguous({}, query, at::kLong)};
}

Four efficientBackward(const Tensor &, const Tensor &query, const Tensor &key,
                       const Tensor &value, const Tensor &mask, const Tensor &,
                       const Tensor &, const Tensor &, const Tensor &, double,
                       std::array<bool, 4> needed, bool,
                       std::optional<double>) {
  Tensor gradient;
  if (mask.defined() && needed[3]) {
    std::vector<int64_t> sizes = mask.sizes().vec();
    int64_t width = sizes.back();
    sizes.back() = (width + 15) / 16 * 16;
    gradient = contiguous(sizes, mask).slice(-1, 0, width);
  }
  return {byPosition(query, query.size(3)), byPosition(key, key.size(3)),
          byPosition(value, value.size(3)), gradient};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) {
  m.impl("scaled_dot_product_attention", attention);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_scaled_dot_product_flash_attention_for_cpu", flash);
  m.impl("_scaled_dot_product_flash_attention_for_cpu_backward", flashBackward);
  m.impl("_scaled_dot_product_flash_attention", flashCuda);
  m.impl("_scaled_dot_product_flash_attention_backward", flashCudaBackward);
  m.impl("_scaled_dot_product_cudnn_attention", cudnn);
  m.impl("_scaled_dot_product_cudnn_attention_backward", cudnnBackward);
  m.impl("_scaled_dot_product_efficient_attention", efficient);
  m.impl("_scaled_dot_product_efficient_attention_backward", efficientBackward);
}
