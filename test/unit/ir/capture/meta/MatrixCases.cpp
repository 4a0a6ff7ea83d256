//===- MatrixCases.cpp - Products and distances on all kinds of arguments ===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/randn_like.h>
#include <ATen/ops/tensor.h>

using namespace fsdp::meta::test;

/// Of four groups of ten rows; one is empty, and the last row is in none.
static Tensor offsets() {
  return at::tensor({3, 3, 7, 9}, at::TensorOptions(at::kInt));
}

std::vector<Case> fsdp::meta::test::matrices() {
  auto cdist = [](const Maker &make) -> Stack {
    return {make({2, 4, 3}), make({2, 5, 3}), 2.0, none};
  };
  auto weightNorm = [](const Maker &make) -> Stack {
    return {make({6, 5}), make.weight({6, 1}), 0};
  };
  return {
      {"dot",
       [](const Maker &make) -> Stack { return {make({5}), make({5})}; }},
      {"vdot",
       [](const Maker &make) -> Stack { return {make({5}), make({5})}; }},
      {"trace", [](const Maker &make) -> Stack { return {make({5, 4})}; }},
      {"trace",
       [](const Maker &make) -> Stack { return {make.index({5, 4}, 3)}; }},
      {"addbmm",
       [](const Maker &make) -> Stack {
         return {make.weight({4, 6}), make({3, 4, 5}), make({3, 5, 6})};
       }},
      {"_grouped_mm",
       [](const Maker &make) -> Stack {
         return {make({10, 8}), make.weight({4, 8, 12}), offsets()};
       }},
      {"_grouped_mm",
       [](const Maker &make) -> Stack {
         return {make({12, 10}).t().contiguous(), make.weight({10, 8}),
                 offsets(), none, none};
       }},
      {"_grouped_mm",
       [](const Maker &make) -> Stack {
         return {make.weight({4, 3, 8}), make.weight({4, 8, 16})};
       }},
      {"_cdist_forward", cdist},
      {"_cdist_backward",
       [=](const Maker &make) -> Stack {
         Stack in = cdist(make);
         Tensor out = first("_cdist_forward", in);
         return {at::randn_like(out), in[0], in[1], 2.0, out};
       }},
      {"_pdist_forward",
       [](const Maker &make) -> Stack { return {make({5, 3}), 2.0}; }},
      {"_pdist_backward",
       [](const Maker &make) -> Stack {
         Tensor input = make({5, 3}).contiguous();
         Tensor out = first("_pdist_forward", {input, 2.0});
         return {at::randn_like(out), input, 2.0, out};
       },
       false},
      {"_weight_norm_interface", weightNorm, false},
      {"_weight_norm_interface_backward",
       [=](const Maker &make) -> Stack {
         Stack in = weightNorm(make);
         return {at::randn_like(in[0].toTensor()), in[0], in[1],
                 call("_weight_norm_interface", in)[1], 0};
       },
       false},
  };
}
