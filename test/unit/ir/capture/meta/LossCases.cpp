//===- LossCases.cpp - Losses on all kinds of arguments -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::losses() {
  std::vector<Case> cases;
  for (int64_t reduction : {0, 1, 2}) {
    auto pair = [=](const Maker &make) -> Stack {
      return {make({4, 5}), make({4, 5}), reduction};
    };
    auto unitPair = [=](const Maker &make) -> Stack {
      return {make.unit({4, 5}), make.unit({4, 5}), none, reduction};
    };
    auto nll2d = [=](const Maker &make) -> Stack {
      return {make({2, 5, 3, 4}), make.index({2, 3, 4}, 5), none, reduction,
              -100};
    };
    // The gradient of the loss: a scalar unless nothing was reduced.
    auto gradient = [](const Tensor &loss) { return at::ones_like(loss); };
    cases.push_back({"mse_loss", pair});
    cases.push_back({"mse_loss_backward", [=](const Maker &make) -> Stack {
                       Stack in = pair(make);
                       return {gradient(first("mse_loss", in)), in[0], in[1],
                               reduction};
                     }});
    cases.push_back(
        {"smooth_l1_loss_backward", [=](const Maker &make) -> Stack {
           Stack in = pair(make);
           return {gradient(first("smooth_l1_loss", in)), in[0], in[1],
                   reduction, 1.0};
         }});
    cases.push_back({"huber_loss", pair});
    cases.push_back({"huber_loss_backward", [=](const Maker &make) -> Stack {
                       Stack in = pair(make);
                       return {gradient(first("huber_loss", in)), in[0], in[1],
                               reduction, 1.0};
                     }});
    cases.push_back({"binary_cross_entropy", unitPair});
    cases.push_back(
        {"binary_cross_entropy_backward", [=](const Maker &make) -> Stack {
           Stack in = unitPair(make);
           return {gradient(first("binary_cross_entropy", in)), in[0], in[1],
                   none, reduction};
         }});
    cases.push_back({"nll_loss2d_forward", nll2d});
    cases.push_back({"nll_loss2d_backward", [=](const Maker &make) -> Stack {
                       Stack in = nll2d(make);
                       Stack out = call("nll_loss2d_forward", in);
                       return {gradient(out[0].toTensor()),
                               in[0],
                               in[1],
                               none,
                               reduction,
                               -100,
                               out[1]};
                     }});
    auto margin = [=](const Maker &make) -> Stack {
      return {make({4, 5}), make.index({4}, 5), 1, 1, none, reduction};
    };
    auto labels = [=](const Maker &make) -> Stack {
      return {make({4, 5}), make.index({4, 5}, 5), reduction};
    };
    cases.push_back({"multi_margin_loss", margin});
    cases.push_back(
        {"multi_margin_loss_backward", [=](const Maker &make) -> Stack {
           Stack in = margin(make);
           return {gradient(first("multi_margin_loss", in)),
                   in[0],
                   in[1],
                   1,
                   1,
                   none,
                   reduction};
         }});
    cases.push_back({"multilabel_margin_loss_forward", labels});
    cases.push_back(
        {"multilabel_margin_loss_backward", [=](const Maker &make) -> Stack {
           Stack in = labels(make);
           Stack out = call("multilabel_margin_loss_forward", in);
           return {gradient(out[0].toTensor()), in[0], in[1], reduction,
                   out[1]};
         }});
  }
  for (bool flat : {false, true}) {
    auto ctc = [=](const Maker &make) -> Stack {
      Tensor targets = at::randint(1, 5, {flat ? 5 : 2, 3}, at::kLong);
      return {make({7, 2, 5}).log_softmax(-1),
              flat ? targets.flatten().slice(0, 0, 5) : targets, Ints{7, 6},
              Ints{3, 2}};
    };
    cases.push_back({"_ctc_loss", ctc, false});
    cases.push_back({"_ctc_loss.Tensor",
                     [=](const Maker &make) -> Stack {
                       Stack in = ctc(make);
                       in[2] = at::tensor({7, 6}, at::kLong);
                       in[3] = at::tensor({3, 2}, at::kLong);
                       return in;
                     },
                     false, "depends on data"});
    cases.push_back({"_ctc_loss_backward",
                     [=](const Maker &make) -> Stack {
                       Stack in = ctc(make), out = call("_ctc_loss", in);
                       return {at::ones_like(out[0].toTensor()),
                               in[0],
                               in[1],
                               in[2],
                               in[3],
                               out[0],
                               out[1],
                               0,
                               false};
                     },
                     false});
  }
  return cases;
}
