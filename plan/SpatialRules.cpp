//===- SpatialRules.cpp - Operands of kernels over images -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/OperandCheck.h"

#include <unordered_map>

using namespace fsdp;
using namespace fsdp::operands;

namespace {

/// (gradient, self, …) of a kernel over the last `spatial` dims of N and C.
void pooled(Check &c, size_t spatial) {
  const Dims &gradient = c.shape(0), &self = c.shape(1);
  c.that(self.size() == spatial + 1 || self.size() == spatial + 2,
         "an input of as many dims as it pools, and one or two before them");
  if (!c.problem.empty())
    return;
  c.that(gradient.size() == self.size() &&
             std::equal(gradient.begin(), gradient.end() - ptrdiff_t(spatial),
                        self.begin()),
         "the gradient to have the input's rows and channels");
  c.that(isEmpty(self) == isEmpty(gradient),
         "an input and a gradient that are not empty");
}

/// With the indices that the forward pass found, places in one plane.
template <size_t spatial, size_t indices>
void maxPooled(Check &c) {
  pooled(c, spatial);
  if (!c.problem.empty())
    return;
  c.same(indices, 0);
  const Dims &self = c.shape(1);
  c.index(indices, 0, product(self, self.size() - spatial, self.size()) - 1);
}

template <size_t spatial>
void averagePooled(Check &c) {
  pooled(c, spatial);
}

template <size_t spatial>
void padded(Check &c) {
  const Dims &self = c.shape(1), &padding = c.integers(2);
  c.that(padding.size() == 2 * spatial && self.size() > spatial,
         "two numbers of padding for each dim");
  if (!c.problem.empty())
    return;
  Dims wanted = self;
  for (size_t i = 0; i < spatial; ++i)
    wanted[self.size() - 1 - i] = sum(wanted[self.size() - 1 - i],
                                      sum(padding[2 * i], padding[2 * i + 1]));
  c.expect(0, wanted);
  c.that(isEmpty(self) == isEmpty(wanted),
         "an input and a gradient that are not empty");
}

template <size_t spatial>
void gridSampled(Check &c) {
  const Dims &input = c.shape(1), &grid = c.shape(2);
  c.that(input.size() == spatial + 2 && grid.size() == spatial + 2 &&
             grid[0] == input[0] && grid.back() == int64_t(spatial) &&
             product(input, 0, input.size()) > 0,
         "a grid for each image");
  if (!c.problem.empty())
    return;
  Dims wanted{input[0], input[1]};
  wanted.insert(wanted.end(), grid.begin() + 1, grid.end() - 1);
  c.expect(0, wanted);
}

void unfoldBackward(Check &c) {
  Dims wanted = c.integers(1);
  int64_t dim = c.integer(2), size = c.integer(3), step = c.integer(4);
  auto rank = static_cast<int64_t>(wanted.size());
  if (rank == 0) {
    c.that(size == 0 || size == 1, "a window that lies in the input");
    return c.expect(0, {size});
  }
  if (dim < 0)
    dim += rank;
  c.that(dim >= 0 && dim < rank && size >= 0 && step > 0 &&
             size <= wanted[static_cast<size_t>(dim)],
         "windows that lie in the input");
  if (!c.problem.empty())
    return;
  int64_t &length = wanted[static_cast<size_t>(dim)];
  length = (length - size) / step + 1;
  wanted.push_back(size);
  c.expect(0, wanted);
}

/// (input, output_size, …, scales) of filters whose taps follow from the
/// scales.
template <bool isBackward>
void resampled(Check &c) {
  const Dims &output = c.integers(1);
  Dims input = isBackward ? c.integers(2) : c.shape(0);
  size_t scales = isBackward ? 4 : 3;
  c.that(input.size() == 4 && output.size() == 2 &&
             product(input, 0, input.size()) > 0,
         "images");
  if (!c.problem.empty())
    return;
  for (size_t i : {0, 1})
    if (std::optional<double> scale = c.number(scales + i)) {
      double exact = double(input[2 + i]) * *scale;
      c.that(*scale > 0 && exact - double(output[i]) < 1 &&
                 exact - double(output[i]) > -1,
             "scales that give the output's size");
    }
  if (isBackward)
    c.expect(0, {input[0], input[1], output[0], output[1]});
}

/// (input, weight, kernel_size, …)
template <size_t spatial>
void convolved(Check &c) {
  const Dims &weight = c.shape(1), &kernel = c.integers(2);
  c.that(kernel.size() == spatial && weight.size() == spatial + 2 &&
             withLast(weight, kernel) == weight &&
             product(weight, 0, weight.size()) > 0,
         "a weight of the kernel's size");
}

void convolutionBackward(Check &c) {
  const Dims &gradient = c.shape(0), &input = c.shape(1);
  c.that(gradient.size() == input.size() && gradient.size() >= 3 &&
             gradient[0] == input[0],
         "a gradient for each sample");
  if (c.problem.empty())
    c.that(isEmpty(gradient) == isEmpty(input),
           "an input and a gradient that are not empty");
}

void slowConvolutionBackward(Check &c) {
  convolutionBackward(c);
  c.contiguous(1);
}

const std::unordered_map<std::string_view, Rule> kSpatialRules = {
    {"aten::max_pool2d_with_indices_backward", maxPooled<2, 7>},
    {"aten::max_pool3d_with_indices_backward", maxPooled<3, 7>},
    {"aten::adaptive_max_pool2d_backward", maxPooled<2, 2>},
    {"aten::adaptive_max_pool3d_backward", maxPooled<3, 2>},
    {"aten::fractional_max_pool2d_backward", maxPooled<2, 4>},
    {"aten::fractional_max_pool3d_backward", maxPooled<3, 4>},
    {"aten::avg_pool2d_backward", averagePooled<2>},
    {"aten::avg_pool3d_backward", averagePooled<3>},
    {"aten::_adaptive_avg_pool2d_backward", averagePooled<2>},
    {"aten::_adaptive_avg_pool3d_backward", averagePooled<3>},
    {"aten::reflection_pad1d_backward", padded<1>},
    {"aten::reflection_pad2d_backward", padded<2>},
    {"aten::reflection_pad3d_backward", padded<3>},
    {"aten::replication_pad1d_backward", padded<1>},
    {"aten::replication_pad2d_backward", padded<2>},
    {"aten::replication_pad3d_backward", padded<3>},
    {"aten::grid_sampler_2d_backward", gridSampled<2>},
    {"aten::grid_sampler_3d_backward", gridSampled<3>},
    {"aten::unfold_backward", unfoldBackward},
    {"aten::_upsample_bilinear2d_aa", resampled<false>},
    {"aten::_upsample_bicubic2d_aa", resampled<false>},
    {"aten::_upsample_bilinear2d_aa_backward", resampled<true>},
    {"aten::_upsample_bicubic2d_aa_backward", resampled<true>},
    {"aten::slow_conv3d_forward", convolved<3>},
    {"aten::slow_conv_transpose2d", convolved<2>},
    {"aten::slow_conv_transpose3d", convolved<3>},
    {"aten::convolution_backward", convolutionBackward},
    {"aten::_slow_conv2d_backward.output_mask", slowConvolutionBackward},
};

} // namespace

Rule fsdp::operands::findSpatialRule(std::string_view op) {
  auto rule = kSpatialRules.find(op);
  return rule == kSpatialRules.end() ? nullptr : rule->second;
}
