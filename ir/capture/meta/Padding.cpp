//===- Padding.cpp - Padding and window operators without data ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"

using namespace fsdp::meta;

static Tensor reflectionPad2d(const Tensor &self, IntArrayRef padding) {
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes[self.dim() - 1] += padding[0] + padding[1];
  sizes[self.dim() - 2] += padding[2] + padding[3];
  return inFormatOf(sizes, self, self);
}

static Tensor padBackward(const Tensor &, const Tensor &self, IntArrayRef) {
  return inFormatOf(self.sizes(), self, self);
}

/// How often a window fits along one dimension.
static int64_t windows(int64_t size, int64_t kernel, int64_t dilation,
                       int64_t padding, int64_t stride) {
  return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

static Tensor im2col(const Tensor &self, IntArrayRef kernel,
                     IntArrayRef dilation, IntArrayRef padding,
                     IntArrayRef stride) {
  bool batched = self.dim() == 4;
  int64_t channels = self.size(-3) * kernel[0] * kernel[1];
  int64_t length =
      windows(self.size(-2), kernel[0], dilation[0], padding[0], stride[0]) *
      windows(self.size(-1), kernel[1], dilation[1], padding[1], stride[1]);
  return batched ? contiguous({self.size(0), channels, length}, self)
                 : contiguous({channels, length}, self);
}

static Tensor col2im(const Tensor &self, IntArrayRef outputSize,
                     IntArrayRef kernel, IntArrayRef, IntArrayRef,
                     IntArrayRef) {
  int64_t channels = self.size(-2) / (kernel[0] * kernel[1]);
  return self.dim() == 3
             ? contiguous(
                   {self.size(0), channels, outputSize[0], outputSize[1]}, self)
             : contiguous({channels, outputSize[0], outputSize[1]}, self);
}

static Tensor gridSampler(const Tensor &input, const Tensor &grid, int64_t,
                          int64_t, bool) {
  std::vector<int64_t> sizes = {input.size(0), input.size(1)};
  for (int64_t dim = 1; dim + 1 < grid.dim(); ++dim)
    sizes.push_back(grid.size(dim));
  return contiguous(sizes, input);
}

static Two gridSamplerBackward(const Tensor &, const Tensor &input,
                               const Tensor &grid, int64_t, int64_t, bool,
                               std::array<bool, 2> mask) {
  return {mask[0] ? contiguousLike(input) : Tensor(), contiguousLike(grid)};
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("reflection_pad2d", reflectionPad2d);
  m.impl("reflection_pad2d_backward", padBackward);
  m.impl("replication_pad2d_backward", padBackward);
  m.impl("replication_pad3d_backward", padBackward);
  m.impl("im2col", im2col);
  m.impl("col2im", col2im);
  m.impl("grid_sampler_2d", gridSampler);
  m.impl("grid_sampler_2d_backward", gridSamplerBackward);
  m.impl("grid_sampler_3d", gridSampler);
  m.impl("grid_sampler_3d_backward", gridSamplerBackward);
}
