//===- SegmentCases.cpp - Segments and ragged rows ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/randn_like.h>
#include <ATen/ops/tensor.h>

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::segments() {
  std::vector<Case> cases;
  for (const char *reduce : {"sum", "mean", "max", "min", "prod"})
    for (bool offsets : {false, true}) {
      auto forward = [=](const Maker &make) -> Stack {
        IValue bounds = offsets ? at::tensor({0, 1, 4}) : at::tensor({1, 3});
        return {make.lay(make.weight({4, 6})), reduce, offsets ? none : bounds,
                none, offsets ? bounds : none};
      };
      cases.push_back({"segment_reduce", forward});
      cases.push_back(
          {"_segment_reduce_backward", [=](const Maker &make) -> Stack {
             Stack in = forward(make);
             Tensor out = first("segment_reduce", in);
             return {at::randn_like(out), out, in[0], reduce, in[2], in[4]};
           }});
    }
  cases.push_back({"segment_reduce", [](const Maker &make) -> Stack {
                     return {make.lay(make.weight({2, 3, 5})),
                             "sum",
                             at::tensor({1, 2, 3, 0}).view({2, 2}),
                             none,
                             none,
                             1};
                   }});
  cases.push_back(
      {"_jagged_to_padded_dense_forward", [](const Maker &make) -> Stack {
         c10::List<Tensor> offsets;
         offsets.push_back(at::tensor({0, 2, 5}));
         return {make.lay(make.weight({5, 4})), offsets, Ints{4}, 0.0};
       }});
  cases.push_back(
      {"_padded_dense_to_jagged_forward", [](const Maker &make) -> Stack {
         c10::List<Tensor> offsets;
         offsets.push_back(at::tensor({0, 2, 5}));
         return {make.lay(make.weight({2, 3, 4})), offsets, 5};
       }});
  cases.push_back({"_padded_dense_to_jagged_forward",
                   [](const Maker &make) -> Stack {
                     c10::List<Tensor> offsets;
                     offsets.push_back(at::tensor({0, 2, 5}));
                     return {make.weight({2, 3, 4}), offsets};
                   },
                   true, "depends on data"});
  return cases;
}
