//===- FakeQuantizationCases.cpp - Quantization-aware training ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros.h>

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::fakeQuantizations() {
  auto perTensor = [](const Maker &make) -> Stack {
    return {make({2, 3, 4, 5}), at::ones({1}), at::zeros({1}), 0, 255};
  };
  auto perChannel = [](const Maker &make) -> Stack {
    return {make({2, 3, 4, 5}), at::ones({3}), at::zeros({3}), 1, 0, 255};
  };
  auto backward = [](auto forward) {
    return [=](const Maker &make) -> Stack {
      Stack in = forward(make);
      in.insert(in.begin(), at::randn_like(in[0].toTensor()));
      return in;
    };
  };
  return {
      {"fake_quantize_per_tensor_affine_cachemask",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}), 0.5, 3, 0, 255};
       }},
      {"fake_quantize_per_channel_affine_cachemask",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}),
                 at::ones({3}),
                 at::zeros({3}, at::kInt),
                 1,
                 0,
                 255};
       }},
      {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}),
                 at::ones({1}),
                 at::zeros({1}, at::kInt),
                 at::ones({1}, at::kLong),
                 0,
                 255};
       }},
      {"_fused_moving_avg_obs_fq_helper",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}),
                 at::ones({1}, at::kLong),
                 at::ones({1}, at::kLong),
                 at::zeros({1}),
                 at::ones({1}),
                 at::ones({1}),
                 at::zeros({1}, at::kInt),
                 0.01,
                 0,
                 255,
                 -1,
                 false,
                 false};
       },
       false},
      {"_fake_quantize_learnable_per_tensor_affine", perTensor},
      {"_fake_quantize_learnable_per_channel_affine", perChannel},
      {"_fake_quantize_learnable_per_tensor_affine_backward",
       backward(perTensor), false},
      {"_fake_quantize_learnable_per_channel_affine_backward",
       backward(perChannel), false},
  };
}
