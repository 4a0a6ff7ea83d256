//===- ConvolutionCases.cpp - Convolutions on all kinds of arguments ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/randn_like.h>

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::convolutions() {
  struct Shape {
    Ints input, weight, stride, padding, dilation;
    bool transposed;
    Ints outputPadding;
    int64_t groups;
  };
  std::vector<Shape> shapes = {
      {{2, 3, 16, 16}, {8, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1},
      {{2, 3, 9, 7}, {4, 3, 3, 2}, {2, 1}, {0, 1}, {1, 2}, false, {0, 0}, 1},
      {{2, 6, 8, 8}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 6},
      {{20, 3, 16, 16}, {8, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1},
      {{2, 3, 32, 32}, {64, 3, 8, 8}, {8, 8}, {0, 0}, {1, 1}, false, {0, 0}, 1},
      {{2, 6, 5, 5}, {6, 4, 3, 3}, {2, 2}, {1, 1}, {1, 1}, true, {1, 1}, 1},
      {{2, 6, 5, 5}, {6, 2, 3, 3}, {2, 2}, {1, 1}, {1, 1}, true, {0, 0}, 2},
      {{3, 4, 20}, {8, 4, 3}, {1}, {1}, {1}, false, {0}, 1},
      {{3, 4, 20}, {8, 2, 3}, {2}, {2}, {2}, false, {0}, 2},
      {{2, 3, 6, 6, 6},
       {4, 3, 3, 3, 3},
       {1, 1, 1},
       {1, 1, 1},
       {1, 1, 1},
       false,
       {0, 0, 0},
       1},
  };
  std::vector<Case> cases;
  for (const Shape &s : shapes)
    for (bool weightsToo : {false, true}) {
      auto weight = [=](const Maker &make) {
        Tensor tensor = make.weight(s.weight);
        return weightsToo && make.layout == Layout::ChannelsLast
                   ? make.lay(tensor)
                   : tensor;
      };
      int64_t outputs = s.transposed ? s.weight[1] * s.groups : s.weight[0];
      auto forward = [=](const Maker &make) -> Stack {
        return {make(s.input), weight(make),    make.weight({outputs}),
                s.stride,      s.padding,       s.dilation,
                s.transposed,  s.outputPadding, s.groups};
      };
      cases.push_back({"convolution", forward});
      for (bool dense : {false, true})
        cases.push_back(
            {"convolution_backward", [=](const Maker &make) -> Stack {
               Stack in = forward(make);
               Tensor gradient = at::randn_like(first("convolution", in));
               if (dense)
                 gradient = gradient.contiguous();
               return {gradient,        in[0],     in[1],      Ints{outputs},
                       s.stride,        s.padding, s.dilation, s.transposed,
                       s.outputPadding, s.groups,  allThree};
             }});
    }
  // Kernels that `convolution` chooses among; models may call them directly.
  auto plain = [&](const char *op, Ints input, Ints weight, Stack tail,
                   bool alsoUnbatched = true) {
    for (bool weightsToo : {false, true})
      for (bool batched : {true, false})
        if (batched || alsoUnbatched)
          cases.push_back({op, [=](const Maker &make) -> Stack {
                             Tensor data = make(input);
                             Tensor filter = make.weight(weight);
                             if (weightsToo)
                               filter = make.lay(filter);
                             Ints kernel(weight.begin() + 2, weight.end());
                             Stack in = {batched ? data : data.select(0, 0),
                                         filter, kernel, none};
                             in.insert(in.end(), tail.begin(), tail.end());
                             return in;
                           }});
  };
  Ints two = {2, 2}, one = {1, 1}, no = {0, 0};
  Ints two3 = {2, 2, 2}, one3 = {1, 1, 1}, no3 = {0, 0, 0};
  plain("_slow_conv2d_forward", {2, 3, 8, 7}, {6, 3, 3, 2}, {two, one}, false);
  plain("slow_conv_dilated2d", {2, 3, 8, 7}, {6, 3, 3, 2}, {one, no, two});
  plain("slow_conv3d_forward", {2, 3, 8, 7, 6}, {6, 3, 2, 3, 2}, {two3, one3},
        false);
  plain("slow_conv_dilated3d", {2, 3, 8, 7, 6}, {6, 3, 2, 3, 2},
        {one3, no3, two3});
  plain("slow_conv_transpose3d", {2, 3, 4, 5, 4}, {3, 6, 2, 3, 2},
        {two3, one3, one3, one3});
  for (bool weightsToo : {false, true})
    cases.push_back(
        {"_slow_conv2d_backward.output_mask", [=](const Maker &make) -> Stack {
           Tensor filter = make.weight({6, 3, 3, 2});
           if (weightsToo)
             filter = make.lay(filter);
           Stack in = {make({2, 3, 8, 7}), filter, Ints{3, 2}, none, two, one};
           Tensor out = first("_slow_conv2d_forward", in);
           return {
               at::randn_like(out), in[0], in[1], in[2], two, one, allThree};
         }});
  return cases;
}
