//===- Normalization.cpp - Norms and masked softmax without data ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/AccumulateType.h>

using namespace fsdp::meta;

/// Statistics are kept in the parameters' dtype if it is a wider one.
static at::ScalarType statisticsType(const Tensor &input,
                                     const OptionalTensor &weight,
                                     const OptionalTensor &bias) {
  const OptionalTensor &parameter = given(weight) ? weight : bias;
  return given(parameter) && parameter->scalar_type() == at::kFloat &&
                 at::isReducedFloatingType(input.scalar_type())
             ? at::kFloat
             : input.scalar_type();
}

static Three layerNorm(const Tensor &input, IntArrayRef normalizedShape,
                       const OptionalTensor &weight, const OptionalTensor &bias,
                       double) {
  std::vector<int64_t> sizes = input.sizes().vec();
  std::fill(sizes.end() - normalizedShape.size(), sizes.end(), 1);
  // CUDA keeps them in the type that it sums in (layer_norm_kernel.cu).
  Tensor mean = contiguous(
      sizes, input,
      isForCuda() ? at::toAccumulateType(input.scalar_type(), /*is_cuda=*/true)
                  : statisticsType(input, weight, bias));
  return {contiguousLike(input), mean, contiguousLike(mean)};
}

static Three layerNormBackward(const Tensor &, const Tensor &input, IntArrayRef,
                               const Tensor &, const Tensor &,
                               const OptionalTensor &weight,
                               const OptionalTensor &bias,
                               std::array<bool, 3> mask) {
  return {mask[0] ? contiguousLike(input) : Tensor(),
          mask[1] ? contiguousLike(*weight) : Tensor(),
          mask[2] ? contiguousLike(*bias) : Tensor()};
}

static Three groupNorm(const Tensor &input, const OptionalTensor &weight,
                       const OptionalTensor &bias, int64_t batch, int64_t,
                       int64_t, int64_t groups, double) {
  Tensor mean =
      contiguous({batch, groups}, input, statisticsType(input, weight, bias));
  return {inFormatOf(input.sizes(), input, input), mean, contiguousLike(mean)};
}

static Three groupNormBackward(const Tensor &, const Tensor &input,
                               const Tensor &, const Tensor &,
                               const OptionalTensor &weight, int64_t,
                               int64_t channels, int64_t, int64_t,
                               std::array<bool, 3> mask) {
  const Tensor &parameter = given(weight) ? *weight : input;
  return {mask[0] ? inFormatOf(input.sizes(), input, input) : Tensor(),
          mask[1] ? contiguous({channels}, parameter) : Tensor(),
          mask[2] ? contiguous({channels}, parameter) : Tensor()};
}

static Tensor maskedSoftmax(const Tensor &self, const Tensor &,
                            std::optional<int64_t>, std::optional<int64_t>) {
  return at::empty_like(self);
}

static Tensor maskedSoftmaxBackward(const Tensor &gradient, const Tensor &,
                                    const Tensor &, std::optional<int64_t>) {
  return contiguousLike(gradient);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("native_layer_norm", layerNorm);
  m.impl("native_layer_norm_backward", layerNormBackward);
  m.impl("_masked_softmax", maskedSoftmax);
  m.impl("_masked_softmax_backward", maskedSoftmaxBackward);
  m.impl("native_group_norm", groupNorm);
  m.impl("native_group_norm_backward", groupNormBackward);
}
