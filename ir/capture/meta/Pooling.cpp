//===- Pooling.cpp - Pooling without data ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/native/Pool.h>

using namespace fsdp::meta;

/// `self` with its last dimensions replaced by `tail`.
static std::vector<int64_t> withTail(const Tensor &self, IntArrayRef tail) {
  std::vector<int64_t> sizes = self.sizes().vec();
  std::copy(tail.begin(), tail.end(), sizes.end() - tail.size());
  return sizes;
}

static Tensor adaptiveAveragePool(const Tensor &self, IntArrayRef outputSize) {
  return inFormatOf(withTail(self, outputSize), self, self);
}

static Tensor adaptiveAveragePool3d(const Tensor &self,
                                    IntArrayRef outputSize) {
  return contiguous(withTail(self, outputSize), self);
}

static Tensor adaptiveAveragePoolBackward(const Tensor &, const Tensor &self) {
  return inFormatOf(self.sizes(), self, self);
}

static Tensor adaptiveAveragePool3dBackward(const Tensor &,
                                            const Tensor &self) {
  return contiguousLike(self);
}

static Two maxPool3d(const Tensor &self, IntArrayRef kernel, IntArrayRef stride,
                     IntArrayRef padding, IntArrayRef dilation, bool ceilMode) {
  auto at = [](IntArrayRef values, int64_t index) {
    return values[values.size() == 1 ? 0 : index];
  };
  IntArrayRef steps = stride.empty() ? kernel : stride;
  std::vector<int64_t> tail;
  for (int64_t k = 0; k < 3; ++k)
    tail.push_back(at::native::pooling_output_shape<int64_t>(
        self.size(k - 3), at(kernel, k), at(padding, k), at(steps, k),
        at(dilation, k), ceilMode));
  Tensor result = inFormatOf(withTail(self, tail), self, self);
  return {result, at::empty_like(result, at::kLong)};
}

static Tensor maxPool3dBackward(const Tensor &, const Tensor &self, IntArrayRef,
                                IntArrayRef, IntArrayRef, IntArrayRef, bool,
                                const Tensor &) {
  return inFormatOf(self.sizes(), self, self);
}

static Tensor maxUnpool2d(const Tensor &self, const Tensor &,
                          IntArrayRef outputSize) {
  // Only the CPU keeps the format (MaxUnpooling.cu: output.resize_).
  if (isForCuda())
    return contiguous(withTail(self, outputSize), self);
  return inFormatOf(withTail(self, outputSize), self, self);
}

static Tensor maxUnpool3d(const Tensor &self, const Tensor &,
                          IntArrayRef outputSize, IntArrayRef, IntArrayRef) {
  return contiguous(withTail(self, outputSize), self);
}

static Tensor fractionalMaxPool3dBackward(const Tensor &, const Tensor &self,
                                          IntArrayRef, IntArrayRef,
                                          const Tensor &) {
  return contiguousLike(self);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_adaptive_avg_pool2d", adaptiveAveragePool);
  m.impl("_adaptive_avg_pool2d_backward", adaptiveAveragePoolBackward);
  m.impl("_adaptive_avg_pool3d", adaptiveAveragePool3d);
  m.impl("_adaptive_avg_pool3d_backward", adaptiveAveragePool3dBackward);
  m.impl("max_pool3d_with_indices", maxPool3d);
  m.impl("max_pool3d_with_indices_backward", maxPool3dBackward);
  m.impl("fractional_max_pool3d_backward", fractionalMaxPool3dBackward);
  m.impl("max_unpool2d", maxUnpool2d);
  m.impl("max_unpool3d", maxUnpool3d);
}
