//===- FakeQuantization.cpp - Quantization-aware training without data ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"

using namespace fsdp::meta;

/// Rounded values, and which of them the range did not cut off.
static Two withMask(const Tensor &self) {
  return {at::empty_like(self), at::empty_like(self, at::kBool)};
}

static Two perChannel(const Tensor &self, const Tensor &, const Tensor &,
                      int64_t, int64_t, int64_t) {
  return withMask(self);
}

static Two perTensor(const Tensor &self, double, int64_t, int64_t, int64_t) {
  return withMask(self);
}

static Two perTensorParameters(const Tensor &self, const Tensor &,
                               const Tensor &, const Tensor &, int64_t,
                               int64_t) {
  return withMask(self);
}

static Two observed(const Tensor &self, const Tensor &, const Tensor &,
                    Tensor &, Tensor &, Tensor &, Tensor &, double, int64_t,
                    int64_t, int64_t, bool, bool) {
  return withMask(self);
}

static Tensor learnablePerTensor(const Tensor &self, const Tensor &,
                                 const Tensor &, int64_t, int64_t, double) {
  return at::empty_like(self);
}

static Tensor learnablePerChannel(const Tensor &self, const Tensor &,
                                  const Tensor &, int64_t, int64_t, int64_t,
                                  double) {
  return at::empty_like(self);
}

static Three learnableBackward(const Tensor &self, const Tensor &scale,
                               const Tensor &zeroPoint) {
  // Gradients of bfloat16 are computed and returned in float.
  at::ScalarType type =
      self.scalar_type() == at::kBFloat16 ? at::kFloat : self.scalar_type();
  return {at::empty_like(self, type), contiguous(scale.sizes(), self, type),
          contiguous(zeroPoint.sizes(), self, type)};
}

static Three learnablePerTensorBackward(const Tensor &, const Tensor &self,
                                        const Tensor &scale,
                                        const Tensor &zeroPoint, int64_t,
                                        int64_t, double) {
  return learnableBackward(self, scale, zeroPoint);
}

static Three learnablePerChannelBackward(const Tensor &, const Tensor &self,
                                         const Tensor &scale,
                                         const Tensor &zeroPoint, int64_t,
                                         int64_t, int64_t, double) {
  return learnableBackward(self, scale, zeroPoint);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("fake_quantize_per_channel_affine_cachemask", perChannel);
  m.impl("fake_quantize_per_tensor_affine_cachemask", perTensor);
  m.impl("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
         perTensorParameters);
  m.impl("_fused_moving_avg_obs_fq_helper", observed);
  m.impl("_fake_quantize_learnable_per_tensor_affine", learnablePerTensor);
  m.impl("_fake_quantize_learnable_per_channel_affine", learnablePerChannel);
  m.impl("_fake_quantize_learnable_per_tensor_affine_backward",
         learnablePerTensorBackward);
  m.impl("_fake_quantize_learnable_per_channel_affine_backward",
         learnablePerChannelBackward);
}
