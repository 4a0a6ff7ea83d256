//===- FlashAttention.cpp - What flash attention alone is told ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/FlashAttention.h"
#include "ir/capture/meta/AttentionChoice.h"
#include "ir/capture/meta/Plainly.h"
#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>

#include <cmath>

using namespace fsdp;
using namespace fsdp::meta;

Tensor meta::padLastDim(const Tensor &tensor, int64_t multiple) {
  int64_t rest = tensor.size(-1) % multiple;
  return rest ? at::constant_pad_nd(tensor, {0, multiple - rest}) : tensor;
}

bool meta::takesToldMask(const Target &target, const sdp::sdp_params &call,
                         bool sharesSequences) {
  if (call.dropout > 0 || call.query.dim() != 4 || call.key.dim() != 4 ||
      call.value.dim() != 4 || call.query.size(2) != call.key.size(2) ||
      call.query.size(2) < 2)
    return false;
  // Sums of rows are float32 in the operator that is told, float64's are not.
  if (target.device == Target::Device::Cpu)
    return sharesSequences && call.query.scalar_type() != at::kDouble &&
           call.query.size(3) == call.value.size(3) && call.key.size(1) > 0 &&
           call.query.size(1) % call.key.size(1) == 0;
  sdp::sdp_params told = {call.query,     call.key, call.value,
                          std::nullopt,   0.0,      /*is_causal=*/true,
                          call.enable_gqa};
  return takesFlash(target, told);
}

/// How far a query sees to the left and to the right.
static std::pair<std::optional<int64_t>, std::optional<int64_t>>
getWindow(const MaskReading &mask) {
  if (mask.form != MaskForm::Window)
    return {};
  Plainly plainly;
  Tensor query = at::arange(mask.begin.size(0));
  return {(query - mask.begin).amax().item<int64_t>(),
          (mask.end - 1 - query).amax().item<int64_t>()};
}

Tensor meta::attendToldMask(const sdp::sdp_params &call,
                            const MaskReading &within, const Tensor &bounds,
                            std::optional<double> scale) {
  int64_t batch = call.query.size(0), length = call.query.size(2);
  int64_t width = call.query.size(-1);
  bool isCpu = getTarget().device == Target::Device::Cpu;
  auto lay = [&](const Tensor &heads) {
    Tensor laid = padLastDim(heads, isCpu ? 1 : 8).transpose(1, 2);
    return bounds.defined()
               ? laid.reshape({batch * length, laid.size(2), laid.size(3)})
               : laid;
  };
  OptionalTensor begins =
      bounds.defined() ? OptionalTensor(bounds) : std::nullopt;
  auto [left, right] = getWindow(within);
  Tensor output = std::get<0>(at::_flash_attention_forward(
      lay(call.query), lay(call.key), lay(call.value), begins, begins, length,
      length, /*dropout_p=*/0.0, within.form == MaskForm::Causal,
      /*return_debug_mask=*/false, scale.value_or(1 / std::sqrt(width)), left,
      right));
  if (bounds.defined())
    output = output.view({batch, length, output.size(1), output.size(2)});
  if (output.size(-1) != width)
    output = output.slice(-1, 0, width);
  return output.transpose(1, 2);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

namespace {

/// Output, sums, two of a generator's state, debug mask.
using Told = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

/// Operands are [batch, length, heads, width], or, where sequences lie one
/// behind the other, [positions, heads, width].
Told tellForward(const Tensor &query, const Tensor &, const Tensor &,
                 const OptionalTensor &bounds, const OptionalTensor &, int64_t,
                 int64_t, double, bool, bool, std::optional<double>,
                 std::optional<int64_t>, std::optional<int64_t>,
                 const OptionalTensor &, const OptionalTensor &) {
  Tensor sums =
      given(bounds)
          ? contiguous({query.size(1), query.size(0)}, query, at::kFloat)
          : contiguous({query.size(0), query.size(2), query.size(1)}, query,
                       at::kFloat);
  return {at::empty_like(query), sums, contiguous({2}, query, at::kUInt64),
          contiguous({}, query, at::kUInt64), contiguous({0}, query)};
}

Three tellBackward(const Tensor &, const Tensor &query, const Tensor &key,
                   const Tensor &value, const Tensor &, const Tensor &,
                   const Tensor &, const Tensor &, int64_t, int64_t, double,
                   bool, const Tensor &, const Tensor &, std::optional<double>,
                   std::optional<int64_t>, std::optional<int64_t>) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_flash_attention_forward", tellForward);
  m.impl("_flash_attention_backward", tellBackward);
}
