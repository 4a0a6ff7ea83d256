//===- PaddingCases.cpp - Padding and windows on all kinds of arguments -===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/randn_like.h>

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::padding() {
  Ints pad2d = {1, 2, 0, 1}, pad3d = {1, 1, 0, 1, 2, 0};
  auto backward = [](const char *forward, Ints sizes, Ints pad) {
    return [=](const Maker &make) -> Stack {
      Tensor input = make(sizes);
      return {at::randn_like(first(forward, {input, pad})), input, pad};
    };
  };
  auto sampler = [](Ints input, Ints grid) {
    return [=](const Maker &make) -> Stack {
      return {make(input), make.unit(grid), 0, 0, false};
    };
  };
  auto samplerBackward = [=](const char *forward, Ints input, Ints grid) {
    return [=](const Maker &make) -> Stack {
      Stack in = sampler(input, grid)(make);
      return {at::randn_like(first(forward, in)), in[0], in[1], 0, 0, false,
              std::array<bool, 2>{true, true}};
    };
  };
  return {
      {"reflection_pad2d",
       [=](const Maker &make) -> Stack { return {make({2, 3, 4, 5}), pad2d}; }},
      {"reflection_pad2d",
       [=](const Maker &make) -> Stack { return {make({3, 4, 5}), pad2d}; }},
      {"reflection_pad2d_backward",
       backward("reflection_pad2d", {2, 3, 4, 5}, pad2d)},
      {"replication_pad2d_backward",
       backward("replication_pad2d", {2, 3, 4, 5}, pad2d)},
      {"replication_pad3d_backward",
       backward("replication_pad3d", {2, 3, 4, 5, 4}, pad3d)},
      {"im2col",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 6, 7}), Ints{2, 3}, Ints{1, 2}, Ints{1, 0},
                 Ints{1, 2}};
       }},
      {"im2col",
       [](const Maker &make) -> Stack {
         return {make({3, 6, 7}), Ints{2, 3}, Ints{1, 1}, Ints{0, 0},
                 Ints{1, 1}};
       }},
      {"col2im",
       [](const Maker &make) -> Stack {
         return {make({2, 12, 9}), Ints{4, 4}, Ints{2, 2},
                 Ints{1, 1},       Ints{0, 0}, Ints{1, 1}};
       }},
      {"grid_sampler_2d", sampler({2, 3, 4, 5}, {2, 6, 7, 2})},
      {"grid_sampler_3d", sampler({2, 3, 4, 5, 4}, {2, 6, 7, 3, 3})},
      {"grid_sampler_2d_backward",
       samplerBackward("grid_sampler_2d", {2, 3, 4, 5}, {2, 6, 7, 2})},
      {"grid_sampler_3d_backward",
       samplerBackward("grid_sampler_3d", {2, 3, 4, 5, 4}, {2, 6, 7, 3, 3})},
  };
}
