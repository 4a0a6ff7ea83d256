//===- Convolution.cpp - Convolutions without data ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Below autograd a convolution of any kind is `convolution`, and its gradient
// is `convolution_backward`; the CPU runs both as they are. Traces hold
// `_convolution`, which picks a library by device: above autograd it is
// replaced.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/ops/convolution.h>

using namespace fsdp::meta;

/// Channels last if the input or the weight is; the number of dimensions
/// decides which kind.
static at::MemoryFormat resultFormat(const Tensor &input,
                                     const Tensor &weight) {
  for (const Tensor &tensor : {input, weight}) {
    at::MemoryFormat format = tensor.suggest_memory_format();
    if (format == at::MemoryFormat::ChannelsLast ||
        format == at::MemoryFormat::ChannelsLast3d)
      return format;
  }
  return at::MemoryFormat::Contiguous;
}

/// A result of a convolution. For a GPU one dimension is computed as the last
/// of two, of an input that was made contiguous: the weight alone may have its
/// channels last (Convolution.cpp, view4d).
static Tensor makeResult(IntArrayRef sizes, const Tensor &like,
                         const Tensor &input, const Tensor &weight) {
  if (!isForCuda() || weight.dim() != 3)
    return at::empty(sizes, like.options(), resultFormat(input, weight));
  at::MemoryFormat format =
      resultFormat(contiguousLike(input).unsqueeze(2), weight.unsqueeze(2));
  return at::empty({sizes[0], sizes[1], 1, sizes[2]}, like.options(), format)
      .squeeze(2);
}

static std::vector<int64_t>
resultSizes(const Tensor &input, const Tensor &weight, IntArrayRef stride,
            IntArrayRef padding, IntArrayRef dilation, bool transposed,
            IntArrayRef outputPadding, int64_t groups) {
  std::vector<int64_t> sizes = {
      input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  // One value may stand for all dimensions.
  auto at = [](IntArrayRef values, size_t index) {
    return values[values.size() == 1 ? 0 : index];
  };
  for (int64_t dim = 2; dim < input.dim(); ++dim) {
    size_t k = dim - 2;
    int64_t reach = at(dilation, k) * (weight.size(dim) - 1);
    sizes.push_back(transposed ? (input.size(dim) - 1) * at(stride, k) -
                                     2 * at(padding, k) + reach +
                                     at(outputPadding, k) + 1
                               : (input.size(dim) + 2 * at(padding, k) - reach -
                                  1) / at(stride, k) +
                                     1);
  }
  return sizes;
}

static Tensor convolution(const Tensor &input, const Tensor &weight,
                          const OptionalTensor &, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef dilation,
                          bool transposed, IntArrayRef outputPadding,
                          int64_t groups) {
  return makeResult(resultSizes(input, weight, stride, padding, dilation,
                                transposed, outputPadding, groups),
                    input, input, weight);
}

static Three convolutionBackward(const Tensor &gradient, const Tensor &input,
                                 const Tensor &weight, OptionalIntArrayRef,
                                 IntArrayRef, IntArrayRef, IntArrayRef, bool,
                                 IntArrayRef, int64_t,
                                 std::array<bool, 3> mask) {
  return {mask[0] ? makeResult(input.sizes(), input, input, weight) : Tensor(),
          mask[1] ? makeResult(weight.sizes(), weight, input, weight)
                  : Tensor(),
          mask[2] ? contiguous({gradient.size(1)}, gradient) : Tensor()};
}

/// Sizes of a convolution whose input may lack the batch dimension.
static std::vector<int64_t> plainSizes(const Tensor &self, const Tensor &weight,
                                       IntArrayRef stride, IntArrayRef padding,
                                       IntArrayRef dilation, bool transposed,
                                       IntArrayRef outputPadding) {
  bool batched = self.dim() == weight.dim();
  std::vector<int64_t> sizes =
      resultSizes(batched ? self : self.unsqueeze(0), weight, stride, padding,
                  dilation, transposed, outputPadding, /*groups=*/1);
  if (!batched)
    sizes.erase(sizes.begin());
  return sizes;
}

static Tensor slowConv2d(const Tensor &self, const Tensor &weight, IntArrayRef,
                         const OptionalTensor &, IntArrayRef stride,
                         IntArrayRef padding) {
  return at::empty(plainSizes(self, weight, stride, padding, {1}, false, {0}),
                   self.options(), resultFormat(self, weight));
}

static Three slowConv2dBackward(const Tensor &gradient, const Tensor &self,
                                const Tensor &weight, IntArrayRef, IntArrayRef,
                                IntArrayRef, std::array<bool, 3> mask) {
  at::MemoryFormat format = resultFormat(self, weight);
  return {mask[0] ? at::empty(self.sizes(), self.options(), format) : Tensor(),
          mask[1] ? at::empty(weight.sizes(), weight.options(), format)
                  : Tensor(),
          mask[2] ? contiguous({gradient.size(1)}, gradient) : Tensor()};
}

static Tensor slowConv3d(const Tensor &self, const Tensor &weight, IntArrayRef,
                         const OptionalTensor &, IntArrayRef stride,
                         IntArrayRef padding) {
  return contiguous(plainSizes(self, weight, stride, padding, {1}, false, {0}),
                    self);
}

static Tensor dilatedConv2d(const Tensor &self, const Tensor &weight,
                            IntArrayRef, const OptionalTensor &,
                            IntArrayRef stride, IntArrayRef padding,
                            IntArrayRef dilation) {
  return at::empty(
      plainSizes(self, weight, stride, padding, dilation, false, {0}),
      self.options(), resultFormat(self, weight));
}

static Tensor dilatedConv3d(const Tensor &self, const Tensor &weight,
                            IntArrayRef, const OptionalTensor &,
                            IntArrayRef stride, IntArrayRef padding,
                            IntArrayRef dilation) {
  return contiguous(
      plainSizes(self, weight, stride, padding, dilation, false, {0}), self);
}

static Tensor transposedConv3d(const Tensor &self, const Tensor &weight,
                               IntArrayRef, const OptionalTensor &,
                               IntArrayRef stride, IntArrayRef padding,
                               IntArrayRef outputPadding,
                               IntArrayRef dilation) {
  return contiguous(
      plainSizes(self, weight, stride, padding, dilation, true, outputPadding),
      self);
}

/// The flags behind `groups` are CUDA's.
static Tensor tracedConvolution(const Tensor &input, const Tensor &weight,
                                const OptionalTensor &bias, IntArrayRef stride,
                                IntArrayRef padding, IntArrayRef dilation,
                                bool transposed, IntArrayRef outputPadding,
                                int64_t groups, bool, bool, bool, bool) {
  return at::convolution(input, weight, bias, stride, padding, dilation,
                         transposed, outputPadding, groups);
}

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) {
  m.impl("_convolution", tracedConvolution);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("convolution", convolution);
  m.impl("convolution_backward", convolutionBackward);
  m.impl("_slow_conv2d_forward", slowConv2d);
  m.impl("_slow_conv2d_backward.output_mask", slowConv2dBackward);
  m.impl("slow_conv3d_forward", slowConv3d);
  m.impl("slow_conv_dilated2d", dilatedConv2d);
  m.impl("slow_conv_dilated3d", dilatedConv3d);
  m.impl("slow_conv_transpose3d", transposedConv3d);
}
