//===- AttentionCases.cpp - Fused attention on all kinds of arguments ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::attentions() {
  auto forward = [](bool causal, bool masked, int64_t keys) {
    return [=](const Maker &make) -> Stack {
      Tensor query = make({2, 4, 6, 8});
      Ints other = {2, 4, keys, 8};
      return {query,       make(other),
              make(other), 0.0,
              causal,      masked ? IValue(make.weight({6, keys})) : none,
              none};
    };
  };
  auto backward = [=](bool causal, bool masked, int64_t keys) {
    return [=](const Maker &make) -> Stack {
      Stack in = forward(causal, masked, keys)(make);
      Stack out = call("_scaled_dot_product_flash_attention_for_cpu", in);
      return {make({2, 4, 6, 8}),
              in[0],
              in[1],
              in[2],
              out[0],
              out[1],
              0.0,
              causal,
              in[5],
              none};
    };
  };
  const char *op = "_scaled_dot_product_flash_attention_for_cpu";
  const char *opBackward =
      "_scaled_dot_product_flash_attention_for_cpu_backward";
  return {{op, forward(true, false, 6)},
          {op, forward(false, false, 5)},
          {op, forward(false, true, 5)},
          {opBackward, backward(true, false, 6)},
          {opBackward, backward(false, false, 5)},
          {opBackward, backward(false, true, 5)}};
}
