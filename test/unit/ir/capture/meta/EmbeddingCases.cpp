//===- EmbeddingCases.cpp - Lookups of rows on all kinds of arguments ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>

using namespace fsdp::meta::test;

static Stack bags(const Maker &make, int64_t mode, bool includeLast,
                  bool scaled, int64_t padding) {
  return {make.weight({10, 6}),
          at::tensor({1, 2, 4, 5, 4, 3}),
          includeLast ? at::tensor({0, 4, 6}) : at::tensor({0, 4}),
          false,
          mode,
          false,
          scaled ? IValue(make.weight({6})) : none,
          includeLast,
          padding};
}

std::vector<Case> fsdp::meta::test::embeddings() {
  std::vector<Case> cases = {
      {"embedding",
       [](const Maker &make) -> Stack {
         return {make.weight({10, 6}), make.index({4, 3}, 10)};
       }},
      {"embedding_dense_backward",
       [](const Maker &make) -> Stack {
         return {make({4, 3, 6}), make.index({4, 3}, 10), 10, -1, false};
       }},
  };
  for (int64_t mode : {0, 1, 2})
    for (bool includeLast : {false, true})
      for (bool scaled : {false, true})
        for (int64_t padding : {-1, 2}) {
          // Only sums are scaled.
          if (scaled && mode != 0)
            continue;
          auto forward = [=](const Maker &make) {
            return bags(make, mode, includeLast, scaled, padding);
          };
          cases.push_back({"_embedding_bag", forward});
          cases.push_back({"_embedding_bag_forward_only", forward});
          cases.push_back(
              {"_embedding_bag_backward", [=](const Maker &make) -> Stack {
                 Stack in = forward(make), out = call("_embedding_bag", in);
                 return {at::ones_like(out[0].toTensor()),
                         in[1],
                         in[2],
                         out[1],
                         out[2],
                         out[3],
                         10,
                         false,
                         mode,
                         false,
                         in[6],
                         padding};
               }});
          if (mode == 2 || padding < 0)
            cases.push_back({"_embedding_bag_dense_backward",
                             [=](const Maker &make) -> Stack {
                               Stack in = forward(make);
                               in[8] = 2; // notes the bags
                               Stack out = call("_embedding_bag", in);
                               return {at::ones_like(out[0].toTensor()),
                                       in[1],
                                       out[1],
                                       out[2],
                                       out[3],
                                       10,
                                       false,
                                       mode,
                                       in[6],
                                       padding};
                             }});
          if (scaled)
            cases.push_back({"_embedding_bag_per_sample_weights_backward",
                             [=](const Maker &make) -> Stack {
                               Stack in = forward(make);
                               in[8] = 2;
                               Stack out = call("_embedding_bag", in);
                               return {at::ones_like(out[0].toTensor()),
                                       in[0],
                                       in[1],
                                       in[2],
                                       out[1],
                                       mode,
                                       padding};
                             }});
        }
  // Weights that are not stored by rows are summed in another way.
  cases.push_back({"_embedding_bag", [](const Maker &make) -> Stack {
                     Stack in = bags(make, 0, false, false, -1);
                     in[0] = make({10, 6});
                     return in;
                   }});
  cases.push_back({"_embedding_bag", [](const Maker &make) -> Stack {
                     Stack in = bags(make, 1, false, false, -1);
                     in[1] = in[1].toTensor().to(at::kInt);
                     return in;
                   }});
  return cases;
}
