//===- NormalizationCases.cpp - Norms on all kinds of arguments ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::normalizations() {
  auto layerNorm = [](const Maker &make) -> Stack {
    return {make({4, 6, 8}), Ints{8}, make.weight({8}), make.weight({8}), 1e-5};
  };
  auto groupNorm = [](const Maker &make) -> Stack {
    Tensor input = make({2, 6, 4, 4});
    return {input, make.weight({6}), make.weight({6}), input.size(0), 6, 16, 3,
            1e-5};
  };
  auto batchNorm = [](bool training) {
    return [=](const Maker &make) -> Stack {
      return {make({2, 6, 4, 4}),
              make.weight({6}),
              make.weight({6}),
              make.weight({6}),
              make.weight({6}).abs(),
              training,
              0.1,
              1e-5};
    };
  };
  auto batchNormBackward = [=](bool training, bool affine) {
    return [=](const Maker &make) -> Stack {
      Stack in = batchNorm(training)(make);
      Stack out = call("native_batch_norm", in);
      return {make({2, 6, 4, 4}),
              in[0],
              affine ? in[1] : none,
              in[3],
              in[4],
              out[1],
              out[2],
              training,
              1e-5,
              std::array<bool, 3>{true, affine, affine}};
    };
  };
  return {
      {"native_layer_norm", layerNorm},
      {"native_layer_norm",
       [](const Maker &make) -> Stack {
         return {make({4, 6, 8}), Ints{6, 8}, none, none, 1e-5};
       }},
      {"native_layer_norm_backward",
       [=](const Maker &make) -> Stack {
         Stack in = layerNorm(make), out = call("native_layer_norm", in);
         return {make({4, 6, 8}), in[0], in[1], out[1],
                 out[2],          in[2], in[3], allThree};
       }},
      {"native_layer_norm_backward",
       [=](const Maker &make) -> Stack {
         Stack in = layerNorm(make), out = call("native_layer_norm", in);
         return {make({4, 6, 8}),
                 in[0],
                 in[1],
                 out[1],
                 out[2],
                 in[2],
                 none,
                 std::array<bool, 3>{true, false, false}};
       }},
      {"native_group_norm", groupNorm},
      {"native_group_norm_backward",
       [=](const Maker &make) -> Stack {
         Stack in = groupNorm(make), out = call("native_group_norm", in);
         return {make({2, 6, 4, 4}),
                 in[0],
                 out[1],
                 out[2],
                 in[1],
                 in[3],
                 6,
                 16,
                 3,
                 allThree};
       }},
      {"_masked_softmax",
       [](const Maker &make) -> Stack {
         Tensor input = make({4, 6});
         return {input, input.gt(0), 1};
       }},
      {"_masked_softmax_backward",
       [](const Maker &make) -> Stack {
         Tensor input = make({4, 6});
         return {make({4, 6}), input, input.gt(0), 1};
       }},
      {"_batch_norm_with_update",
       [](const Maker &make) -> Stack {
         return {make({2, 6, 4, 4}),
                 make.weight({6}),
                 make.weight({6}),
                 make.weight({6}),
                 make.weight({6}).abs(),
                 0.1,
                 1e-5};
       }},
      {"batch_norm_backward",
       [](const Maker &make) -> Stack {
         Tensor input = make({2, 6, 4, 4}), weight = make.weight({6});
         Tensor mean = make.weight({6}), var = make.weight({6}).abs();
         Stack out = call("_batch_norm_with_update",
                          {input, weight, weight, mean, var, 0.1, 1e-5});
         return {make({2, 6, 4, 4}),
                 input,
                 weight,
                 mean,
                 var,
                 out[1],
                 out[2],
                 true,
                 1e-5,
                 allThree,
                 out[3]};
       },
       false},
      {"batch_norm_update_stats",
       [](const Maker &make) -> Stack {
         return {make({2, 6, 4, 4}), make.weight({6}), make.weight({6}).abs(),
                 0.1};
       }},
      {"native_batch_norm", batchNorm(true)},
      {"native_batch_norm", batchNorm(false)},
      {"native_batch_norm",
       [](const Maker &make) -> Stack {
         return {make({4, 6}), none, none, none, none, true, 0.1, 1e-5};
       }},
      {"_native_batch_norm_legit", batchNorm(true)},
      {"_native_batch_norm_legit_functional", batchNorm(true)},
      {"_native_batch_norm_legit.no_stats",
       [](const Maker &make) -> Stack {
         return {make({2, 6, 5}),
                 make.weight({6}),
                 make.weight({6}),
                 true,
                 0.1,
                 1e-5};
       }},
      {"native_batch_norm_backward", batchNormBackward(true, true), false},
      {"native_batch_norm_backward", batchNormBackward(false, true), false},
      {"native_batch_norm_backward", batchNormBackward(true, false), false},
  };
}
