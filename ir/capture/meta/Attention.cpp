//===- Attention.cpp - Fused attention without data -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `scaled_dot_product_attention` picks an implementation by its arguments'
// device. On meta tensors that would be the decomposed one; above autograd it
// is therefore replaced by the choice that the CPU makes, so that the fused
// operator and its fused backward are what is captured.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"

#include <ATen/OpMathType.h>
#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

using namespace fsdp::meta;

/// A mask that is added to the scores, out of one that says which take part.
static OptionalTensor additiveMask(const OptionalTensor &mask,
                                   at::ScalarType dtype) {
  if (!given(mask) || mask->scalar_type() != at::kBool)
    return mask;
  Tensor added = at::zeros_like(*mask, mask->options().dtype(dtype));
  added.masked_fill_(mask->logical_not(),
                     -std::numeric_limits<double>::infinity());
  return added;
}

static Tensor attention(const Tensor &query, const Tensor &key,
                        const Tensor &value, const OptionalTensor &mask,
                        double dropout, bool causal,
                        std::optional<double> scale, bool grouped) {
  auto choice = static_cast<at::SDPBackend>(at::native::_fused_sdp_choice_cpp(
      query, key, value, mask, dropout, causal, scale, grouped));
  OptionalTensor added = additiveMask(mask, query.scalar_type());
  // With dropout it is refused there: whoever records operators can name it.
  if (choice == at::SDPBackend::flash_attention || dropout > 0)
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout, causal, added, scale));
  return std::get<0>(at::_scaled_dot_product_attention_math(
      query, key, value, added, dropout, causal, std::nullopt, scale, grouped));
}

/// Sizes [batch, heads, length, width], laid out as [batch, length, heads,
/// width].
static Tensor byPosition(const Tensor &like, int64_t width) {
  return contiguous({like.size(0), like.size(2), like.size(1), width}, like)
      .transpose(1, 2);
}

static Two flash(const Tensor &query, const Tensor &, const Tensor &,
                 double dropout, bool, const OptionalTensor &,
                 std::optional<double>) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0,
                              "attention with dropout draws random numbers");
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

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) {
  m.impl("scaled_dot_product_attention", attention);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_scaled_dot_product_flash_attention_for_cpu", flash);
  m.impl("_scaled_dot_product_flash_attention_for_cpu_backward", flashBackward);
}
