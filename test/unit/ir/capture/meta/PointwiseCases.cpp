//===- PointwiseCases.cpp - Pointwise operators on all kinds of arguments ===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/scalar_tensor.h>

using namespace fsdp::meta::test;

std::vector<Case> fsdp::meta::test::pointwiseOps() {
  auto unary = [](const Maker &make) -> Stack { return {make({2, 3, 4, 5})}; };
  auto binary = [](const Maker &make) -> Stack {
    return {make({2, 3, 4, 5}), make({2, 3, 4, 5})};
  };
  auto shifts = [](const Maker &make) -> Stack {
    return {make.index({4, 5}, 9), make.index({4, 5}, 3)};
  };
  auto shiftsScalar = [](const Maker &make) -> Stack {
    return {make.index({4, 5}, 9), 2};
  };
  auto prelu = [](const Maker &make) -> Stack {
    return {make({2, 3, 4, 5}), make.weight({1, 3, 1, 1})};
  };
  return {
      {"where.self",
       [](const Maker &make) -> Stack {
         Tensor input = make({2, 3, 4, 5});
         return {input.gt(0), input, make({2, 3, 4, 5})};
       }},
      {"where.self",
       [](const Maker &make) -> Stack {
         Tensor input = make({4, 5});
         return {input.gt(0), input, at::scalar_tensor(0.5, at::kDouble)};
       }},
      {"where.self",
       [](const Maker &make) -> Stack {
         return {make({4, 1}).gt(0), make({1, 5}), make.index({4, 5}, 5)};
       }},
      {"abs", unary},
      {"logical_not", unary},
      {"logical_and", binary},
      {"logical_or", binary},
      {"logical_xor", binary},
      {"complex", binary},
      {"polar", binary},
      {"nan_to_num", unary},
      {"mvlgamma",
       [](const Maker &make) -> Stack {
         return {make.unit({4, 5}).add(1), 1};
       }},
      {"conj_physical", unary},
      {"relu", unary},
      {"relu_", unary},
      {"hardswish_", unary},
      {"hardtanh_", unary},
      {"floor_divide_.Tensor", binary},
      {"_add_relu.Tensor", binary},
      {"_add_relu.Scalar",
       [](const Maker &make) -> Stack { return {make({2, 3, 4, 5}), 0.5}; }},
      {"frexp.Tensor", unary},
      {"remainder.Scalar_Tensor",
       [](const Maker &make) -> Stack { return {5, make({2, 3, 4, 5})}; }},
      {"remainder.Scalar_Tensor",
       [](const Maker &make) -> Stack {
         return {2.5, make.index({4, 5}, 3).add(1)};
       }},
      {"_standard_gamma_grad",
       [](const Maker &make) -> Stack {
         return {make.unit({2, 3, 4, 5}), make.unit({2, 3, 4, 5})};
       }},
      {"_dirichlet_grad",
       [](const Maker &make) -> Stack {
         return {make.unit({4, 5}), make.unit({4, 5}), make.unit({4, 5})};
       }},
      {"rrelu_with_noise",
       [](const Maker &make) -> Stack {
         Tensor input = make({2, 3, 4, 5});
         return {input, input.detach().clone()};
       }},
      {"threshold_backward",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}), make({2, 3, 4, 5}), 0};
       }},
      {"hardswish", unary},
      {"hardswish_backward", binary},
      {"hardtanh", unary},
      {"hardtanh_backward",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}), make({2, 3, 4, 5}), -1, 1};
       }},
      {"log_sigmoid_forward", unary},
      {"log_sigmoid_backward",
       [](const Maker &make) -> Stack {
         Tensor input = make({2, 3, 4, 5});
         return {make({2, 3, 4, 5}), input,
                 call("log_sigmoid_forward", {input})[1]};
       }},
      {"glu_backward",
       [](const Maker &make) -> Stack {
         return {make({4, 3}), make({4, 6}), 1};
       }},
      {"_prelu_kernel", prelu},
      {"_prelu_kernel_backward",
       [=](const Maker &make) -> Stack {
         Stack in = prelu(make);
         return {make({2, 3, 4, 5}), in[0], in[1]};
       }},
      {"angle", unary},
      {"isnan", unary},
      {"isnan",
       [](const Maker &make) -> Stack { return {make.index({4, 5}, 3)}; }},
      {"logit",
       [](const Maker &make) -> Stack { return {make.unit({4, 5}), 1e-6}; }},
      {"logit",
       [](const Maker &make) -> Stack { return {make.index({4, 5}, 1)}; }},
      {"floor_divide", binary},
      {"floor_divide",
       [](const Maker &make) -> Stack {
         return {make.index({4, 5}, 9), make({4, 5})};
       }},
      {"rsub.Tensor", binary},
      {"__lshift__.Tensor", shifts},
      {"__lshift__.Scalar", shiftsScalar},
      {"__rshift__.Tensor", shifts},
      {"__rshift__.Scalar", shiftsScalar},
      {"native_dropout",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}), 0.0, true};
       }},
      {"native_dropout_backward",
       [](const Maker &make) -> Stack {
         Tensor gradient = make({2, 3, 4, 5});
         return {gradient, gradient.gt(0), 2.0};
       }},
  };
}
