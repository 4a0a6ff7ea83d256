//===- PoolingCases.cpp - Pooling on all kinds of arguments -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/randn_like.h>

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::pooling() {
  auto pool3d = [](const Maker &make) -> Stack {
    return {make({2, 3, 6, 7, 8}), Ints{2, 2, 3}, Ints{2, 1, 2},
            Ints{0, 1, 1},         Ints{1, 1, 1}, true};
  };
  auto unpool = [](const char *pool, Ints sizes, Ints kernel) {
    return [=](const Maker &make) -> Stack {
      Stack out = call(pool, {make(sizes), kernel, kernel});
      return {out[0], out[1], Ints(sizes.begin() + 2, sizes.end())};
    };
  };
  auto backward = [](Ints sizes, Ints size) {
    return [=](const Maker &make) -> Stack {
      Tensor input = make(sizes);
      const char *op =
          size.size() == 2 ? "_adaptive_avg_pool2d" : "_adaptive_avg_pool3d";
      return {at::randn_like(first(op, {input, size})), input};
    };
  };
  return {
      {"_adaptive_avg_pool2d",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 8, 8}), Ints{2, 3}};
       }},
      {"_adaptive_avg_pool2d",
       [](const Maker &make) -> Stack {
         return {make({3, 8, 8}), Ints{1, 1}};
       }},
      {"_adaptive_avg_pool2d_backward", backward({2, 3, 8, 8}, {2, 3})},
      {"_adaptive_avg_pool3d",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 8, 8, 6}), Ints{2, 3, 1}};
       }},
      {"_adaptive_avg_pool3d_backward", backward({2, 3, 8, 8, 6}, {2, 3, 1})},
      {"max_pool2d_with_indices",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 8, 8}), Ints{2, 2}, Ints{},
                 Ints{0, 0},         Ints{1, 1}, false};
       }},
      {"max_pool3d_with_indices", pool3d},
      {"max_pool3d_with_indices_backward",
       [=](const Maker &make) -> Stack {
         Stack in = pool3d(make), out = call("max_pool3d_with_indices", in);
         return {at::randn_like(out[0].toTensor()),
                 in[0],
                 in[1],
                 in[2],
                 in[3],
                 in[4],
                 true,
                 out[1]};
       }},
      {"fractional_max_pool3d",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 6, 7, 8}), Ints{2, 2, 2}, Ints{3, 3, 4},
                 make.unit({2, 3, 3})};
       }},
      {"fractional_max_pool3d_backward",
       [](const Maker &make) -> Stack {
         Tensor input = make({2, 3, 6, 7, 8});
         Stack out =
             call("fractional_max_pool3d",
                  {input, Ints{2, 2, 2}, Ints{3, 3, 4}, make.unit({2, 3, 3})});
         return {at::randn_like(out[0].toTensor()), input, Ints{2, 2, 2},
                 Ints{3, 3, 4}, out[1]};
       },
       false},
      {"max_unpool2d", unpool("max_pool2d_with_indices", {2, 3, 6, 6}, {2, 2})},
      {"max_unpool3d",
       [=](const Maker &make) -> Stack {
         Stack in = unpool("max_pool3d_with_indices", {2, 3, 6, 6, 6},
                           {2, 2, 2})(make);
         in.push_back(Ints{2, 2, 2});
         in.push_back(Ints{0, 0, 0});
         return in;
       }},
  };
}
