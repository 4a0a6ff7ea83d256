//===- IndexingCases.cpp - Selection and lookup on all kinds of arguments ===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/tensor.h>

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::indexing() {
  return {
      {"index_select",
       [](const Maker &make) -> Stack {
         return {make({5, 6}), 0, at::tensor({0, 2, 2})};
       }},
      {"index_select",
       [](const Maker &make) -> Stack {
         return {make({5, 6}), -1, at::tensor({0, 2, 2, 5})};
       }},
      {"bucketize.Scalar",
       [](const Maker &) -> Stack {
         return {0.5, at::tensor({-1.0f, 0.0f, 1.0f}), true};
       }},
      {"searchsorted.Scalar",
       [](const Maker &) -> Stack {
         return {at::tensor({-1.0f, 0.0f, 1.0f}), 0.5};
       }},
      {"masked_scatter",
       [](const Maker &make) -> Stack {
         Tensor input = make({4, 5});
         return {input, input.gt(0), make({6, 5})};
       }},
      {"masked_scatter_backward",
       [](const Maker &make) -> Stack {
         Tensor gradient = make({4, 5});
         return {gradient, gradient.gt(0), Ints{6, 5}};
       }},
      {"nonzero_static",
       [](const Maker &make) -> Stack { return {make({4, 5}), 7}; }},
      {"narrow_copy",
       [](const Maker &make) -> Stack { return {make({4, 5}), -1, 1, 3}; }},
      {"take",
       [](const Maker &make) -> Stack {
         return {make.weight({4, 5}), make.index({3, 2}, 20)};
       }},
      {"flip",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}), Ints{0, 2}};
       }},
      {"roll",
       [](const Maker &make) -> Stack {
         return {make({4, 5}), Ints{1}, Ints{0}};
       }},
      {"roll",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 4}), Ints{1, 2}, Ints{2, 3}};
       }},
      {"unfold_backward",
       [](const Maker &make) -> Stack {
         return {make({3, 4, 2}), make.batch({3, 8}), 1, 2, 2};
       }},
      {"channel_shuffle",
       [](const Maker &make) -> Stack { return {make({2, 6, 4, 4}), 3}; }},
      {"bucketize.Tensor",
       [](const Maker &make) -> Stack {
         return {make({4, 5}), at::tensor({-1.0f, 0.0f, 1.0f}), false, false};
       }},
      {"searchsorted.Tensor",
       [](const Maker &make) -> Stack {
         return {at::tensor({-1.0f, 0.0f, 1.0f}), make({4, 5}), true};
       }},
      {"repeat_interleave.Tensor",
       [](const Maker &make) -> Stack { return {at::tensor({1, 2, 3}), 6}; }},
      {"repeat_interleave.Tensor",
       [](const Maker &) -> Stack { return {at::tensor({1, 2, 3})}; }, true,
       "depends on data"},
      {"tril_indices",
       [](const Maker &make) -> Stack {
         return {4, 5, 0, none, none, at::Device(at::kCPU)};
       }},
      {"triu_indices",
       [](const Maker &make) -> Stack {
         return {4, 5, 1, none, none, at::Device(at::kCPU)};
       }},
  };
}
