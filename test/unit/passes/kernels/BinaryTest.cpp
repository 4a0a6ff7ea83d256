//===- BinaryTest.cpp - Functions of several numbers ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "KernelGraph.h"
#include "Samples.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

struct Binary {
  const char *name;
  std::vector<StaticArgument> statics;
  double ulps = 0, narrowUlps = 0;
  /// Whether LibTorch takes operands of several types, and broadcasts them.
  bool mixes = true;
  double absolute = 0;
};

void PrintTo(const Binary &each, std::ostream *out) { *out << each.name; }

/// Pairs of operands, broadcast and not.
std::vector<std::pair<at::Tensor, at::Tensor>>
listPairs(at::ScalarType a, at::ScalarType b, bool broadcasts) {
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs{
      {sample({3, 5, 37}, a, true), sample({3, 5, 37}, b, true)},
      {sample({37, 6}, a).t(), sample({37, 6}, b).t()},
      {sample({6, 37}, a), sample({37, 6}, b).t()},
      {sample({4, 64}, a).slice(1, 3, 40), sample({4, 37}, b)},
      {sample({2, 7, 3, 8}, a).transpose(1, 2), sample({2, 3, 7, 8}, b)},
      {sample({}, a), sample({}, b)},
  };
  if (broadcasts) {
    pairs.emplace_back(sample({3, 5, 37}, a), sample({37}, b));
    pairs.emplace_back(sample({3, 5, 37}, a), sample({5, 1}, b));
    pairs.emplace_back(sample({3, 1, 37}, a), sample({5, 1}, b));
    pairs.emplace_back(sample({3, 5, 37}, a), sample({}, b));
    pairs.emplace_back(sample({3, 5, 37}, a), sample({1}, b));
    pairs.emplace_back(sample({}, a), sample({3, 5, 37}, b));
    pairs.emplace_back(sample({5, 5}, a), sample({5}, b));
    pairs.emplace_back(sample({2, 7, 3, 8}, a).transpose(1, 2),
                       sample({7, 8}, b));
  }
  return pairs;
}

class BinaryTest : public testing::TestWithParam<Binary> {
protected:
  void check(at::ScalarType a, at::ScalarType b) {
    const Binary &each = GetParam();
    for (const auto &[x, y] : listPairs(a, b, each.mixes)) {
      std::string text = nameOf(a) + " " + c10::str(x.sizes()) + ", " +
                         nameOf(b) + " " + c10::str(y.sizes());
      SCOPED_TRACE(text);
      KernelGraph graph;
      Node left = graph.input(x), right = graph.input(y);
      Node result = graph.op("aten." + std::string(each.name), {left, right},
                             each.statics);
      ASSERT_TRUE(isKernelOp(graph.last()));
      bool isWide = result.tensor.scalar_type() == at::kFloat;
      expectSame(graph, {result},
                 {isWide ? each.ulps : each.narrowUlps, each.absolute});
    }
  }
};

TEST_P(BinaryTest, GivesWhatLibTorchGives) {
  for (at::ScalarType dtype : listFloats())
    check(dtype, dtype);
}

/// As averages of weights take it: by one number for all, too.
TEST(LerpTest, TakesItsWeightFromATensor) {
  for (at::ScalarType dtype : listFloats())
    for (double weight : {0.0, 0.001, 0.8, 1.0, -1.0}) {
      KernelGraph graph;
      Node a = graph.input(sample({3, 37}, dtype)),
           b = graph.input(sample({3, 37}, dtype));
      // Below 0: one for each element.
      Node part = graph.input(weight < 0 ? sample({3, 37}, dtype)
                                         : at::full({}, weight, dtype));
      Node result = graph.op("aten.lerp.Tensor", {a, b, part});
      ASSERT_TRUE(isKernelOp(graph.last()));
      expectSame(graph, {result}, {1, 0});
    }
}

TEST(ScaledSumTest, IsOfF32Alone) {
  for (at::ScalarType dtype : listFloats())
    for (const char *name : {"aten.add.Tensor", "aten.sub.Tensor"}) {
      KernelGraph graph;
      Node a = graph.input(sample({3, 37}, dtype)),
           b = graph.input(sample({3, 37}, dtype));
      Node result = graph.op(name, {a, b}, {{"alpha", int64_t(-3)}});
      EXPECT_EQ(isKernelOp(graph.last()), dtype == at::kFloat);
      if (dtype == at::kFloat)
        expectSame(graph, {result}, {0, 1e-6});
    }
}

/// Operators whose operands LibTorch takes in several types.
class PromotionTest : public BinaryTest {};

TEST_P(PromotionTest, PromotesTypesAsLibTorch) {
  check(at::kBFloat16, at::kFloat);
  check(at::kFloat, at::kBFloat16);
  check(at::kHalf, at::kFloat);
  check(at::kHalf, at::kBFloat16);
  check(at::kFloat, at::kLong);
  check(at::kBFloat16, at::kLong);
  check(at::kInt, at::kBFloat16);
  if (std::string(GetParam().name).find("sub") == std::string::npos)
    check(at::kFloat, at::kBool);
}

const std::string kTanh = "tanh";

const Binary kBinary[] = {
    {"add.Tensor", {}},
    {"sub.Tensor", {}},
    {"mul.Tensor", {}},
    {"div.Tensor", {}},
    {"maximum", {}},
    {"minimum", {}},
    {"eq.Tensor", {}},
    {"ne.Tensor", {}},
    {"lt.Tensor", {}},
    {"le.Tensor", {}},
    {"gt.Tensor", {}},
    {"ge.Tensor", {}},
    {"logical_and", {}},
    {"logical_or", {}},
    {"logical_xor", {}},
    {"lerp.Scalar", {{"weight", 0.3}}, 1, 1, false},
    {"lerp.Scalar", {{"weight", 0.8}}, 1, 1, false},
    {"sigmoid_backward", {}, 0, 0, false},
    {"tanh_backward", {}, 0, 0, false},
    {"threshold_backward", {{"threshold", int64_t(0)}}, 0, 0, false},
    {"threshold_backward", {{"threshold", 0.3}}, 0, 0, false},
    {"silu_backward", {}, 8, 1, false, 1e-6},
    // Below -5 LibTorch loses the density.
    // Below -5 LibTorch loses the density.
    {"gelu_backward", {}, 8, 1, false, 2e-5},
    {"gelu_backward", {{"approximate", kTanh}}, 32, 1, false, 2e-5},
    {"softplus_backward", {{"beta", 1.0}, {"threshold", 20.0}}, 4, 1, false},
    {"leaky_relu_backward",
     {{"negative_slope", 0.2}, {"self_is_result", false}},
     0,
     0,
     false},
    {"elu_backward",
     {{"alpha", 0.7},
      {"scale", 1.3},
      {"input_scale", 0.9},
      {"is_result", false}},
     4,
     1,
     false},
    {"elu_backward",
     {{"alpha", 0.7},
      {"scale", 1.3},
      {"input_scale", 0.9},
      {"is_result", true}},
     1,
     1,
     false},
    {"hardtanh_backward", {{"min_val", -0.3}, {"max_val", 0.7}}, 0, 0, false},
};

std::string nameCase(const testing::TestParamInfo<Binary> &info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name + "_" + std::to_string(info.index);
}

std::vector<Binary> listMixing() {
  std::vector<Binary> all;
  for (const Binary &each : kBinary)
    if (each.mixes)
      all.push_back(each);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, BinaryTest, testing::ValuesIn(kBinary), nameCase);
INSTANTIATE_TEST_SUITE_P(All, PromotionTest, testing::ValuesIn(listMixing()),
                         nameCase);

} // namespace
