//===- UnaryTest.cpp - Functions of one number ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each rule alone, in all types and many layouts, against LibTorch's operator.
//
//===----------------------------------------------------------------------===//

#include "KernelGraph.h"
#include "Samples.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

struct Unary {
  const char *name;
  std::vector<StaticArgument> statics;
  /// Of f32, and of the others, which LibTorch rounds from f32 mostly.
  double ulps = 0, narrowUlps = 0;
  double absolute = 0;
  /// Infinities and NaNs are among the numbers.
  bool special = true;
  double share = Tolerance().share;
};

void PrintTo(const Unary &each, std::ostream *out) { *out << each.name; }

class UnaryTest : public testing::TestWithParam<Unary> {};

TEST_P(UnaryTest, GivesWhatLibTorchGives) {
  const Unary &each = GetParam();
  for (at::ScalarType dtype : listFloats())
    for (const at::Tensor &tensor : listLayouts(dtype, each.special)) {
      SCOPED_TRACE(nameOf(dtype) + " of " + std::to_string(tensor.dim()) +
                   " dims");
      KernelGraph graph;
      Node x = graph.input(tensor);
      Node y = graph.op("aten." + std::string(each.name), {x}, each.statics);
      EXPECT_TRUE(isKernelOp(graph.last()));
      expectSame(graph, {y},
                 {dtype == at::kFloat ? each.ulps : each.narrowUlps,
                  each.absolute, each.share});
    }
}

const std::string kByTanh = "tanh";

const Unary kUnary[] = {
    {"neg", {}},
    {"abs", {}},
    {"exp", {}, 2, 1},
    {"log", {}, 2, 1},
    {"erf", {}, 2, 1},
    {"floor", {}},
    {"ceil", {}},
    {"trunc", {}},
    {"round", {}},
    {"sqrt", {}, 1},
    // The kernel for few elements rounds the root of bf16 and halves, too.
    {"rsqrt", {}, 1, 2, 0, true, 0.3},
    {"reciprocal", {}, 0, 0},
    {"pow.Tensor_Scalar", {{"exponent", int64_t(0)}}},
    {"pow.Tensor_Scalar", {{"exponent", int64_t(1)}}},
    {"pow.Tensor_Scalar", {{"exponent", int64_t(2)}}},
    {"pow.Tensor_Scalar", {{"exponent", 3.0}}},
    {"pow.Tensor_Scalar", {{"exponent", 0.5}}, 1},
    {"pow.Tensor_Scalar", {{"exponent", -0.5}}, 1, 2, 0, true, 0.3},
    {"pow.Tensor_Scalar", {{"exponent", int64_t(-1)}}},
    {"pow.Tensor_Scalar", {{"exponent", int64_t(-2)}}},
    {"tanh", {}, 3, 1},
    {"sigmoid", {}, 3, 1},
    {"relu", {}},
    // Some of LibTorch's kernels make infinity a NaN.
    {"gelu", {}, 4, 1, 1e-6, false},
    {"gelu", {{"approximate", kByTanh}}, 4, 1, 1e-6, false},
    {"silu", {}, 3, 1},
    {"softplus", {}, 4, 1},
    {"softplus", {{"beta", 2.0}, {"threshold", 3.0}}, 4, 1},
    {"leaky_relu", {}},
    {"leaky_relu", {{"negative_slope", 0.3}}},
    {"elu", {}, 4, 1},
    {"elu", {{"alpha", 0.7}, {"scale", 1.3}, {"input_scale", 0.9}}, 4, 1},
    {"hardtanh", {{"min_val", -0.3}, {"max_val", 0.7}}},
    {"clamp", {{"min", -0.3}, {"max", 0.7}}},
    {"clamp", {{"min", -0.3}}},
    {"clamp_min", {{"min", 0.1}}},
    {"clamp_max", {{"max", 0.1}}},
    {"add.Scalar", {{"other", 0.3}}},
    {"sub.Scalar", {{"other", 0.3}}},
    {"rsub.Scalar", {{"other", int64_t(1)}}},
    {"mul.Scalar", {{"other", 0.3}}},
    {"div.Scalar", {{"other", 0.3}}},
    {"eq.Scalar", {{"other", 0.0}}},
    {"ne.Scalar", {{"other", 0.0}}},
    {"lt.Scalar", {{"other", 0.3}}},
    {"le.Scalar", {{"other", int64_t(0)}}},
    {"gt.Scalar", {{"other", 0.3}}},
    {"ge.Scalar", {{"other", 0.3}}},
    {"isnan", {}},
    {"logical_not", {}},
    {"clone", {}},
    {"ones_like", {}},
    {"zeros_like", {}},
    {"full_like", {{"fill_value", 0.3}}},
    {"_to_copy", {{"dtype", std::string("dtype:6")}}},
    {"_to_copy", {{"dtype", std::string("dtype:15")}}},
    {"_to_copy", {{"dtype", std::string("dtype:5")}}},
    {"_to_copy", {{"dtype", std::string("dtype:11")}}},
    {"_to_copy", {{"memory_format", std::string("format:0")}}},
};

INSTANTIATE_TEST_SUITE_P(All, UnaryTest, testing::ValuesIn(kUnary),
                         [](const auto &info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name + "_" + std::to_string(info.index);
                         });

} // namespace
