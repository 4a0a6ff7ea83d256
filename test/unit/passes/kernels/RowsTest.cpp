//===- RowsTest.cpp - Operators that look at a whole row ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of kernels and of LibTorch are added in another order: they may be apart
// by a few ulps of f32 of the sum of absolute values.
//
//===----------------------------------------------------------------------===//

#include "KernelGraph.h"
#include "Samples.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

#include <gtest/gtest.h>

#include <functional>

using namespace fsdp;
using namespace fsdp::test;

namespace {

using Dims = std::vector<int64_t>;

/// Rows of many lengths, and in several places.
std::vector<at::Tensor> listRows(at::ScalarType dtype) {
  return {sample({3, 5, 37}, dtype),
          sample({6, 1}, dtype),
          sample({2, 300}, dtype),
          sample({37, 6}, dtype).t(),
          sample({2, 7, 3, 8}, dtype).transpose(1, 2),
          sample({4, 64}, dtype).slice(1, 3, 40)};
}

/// Of numbers about 1.
double epsilonOf(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? 0x1p-8
         : dtype == at::kHalf   ? 0x1p-11
                                : 0x1p-24;
}

/// Of sums of `tensor`: in f32, and its result's digits.
Tolerance sumsOf(const at::Tensor &tensor, at::ScalarType result) {
  double all = tensor.abs().to(at::kDouble).sum().item<double>();
  return {result == at::kFloat ? 0. : 1., 8 * 0x1p-24 * all};
}

class RowsTest : public testing::TestWithParam<at::ScalarType> {};

TEST_P(RowsTest, SumsAndMeans) {
  for (const at::Tensor &tensor : listRows(GetParam()))
    for (bool keepdim : {false, true}) {
      SCOPED_TRACE(c10::str(tensor.sizes()));
      std::vector<StaticArgument> last{{"dim", Dims{-1}}, {"keepdim", keepdim}};
      for (const char *name : {"sum.dim_IntList", "mean.dim", "amax", "amin"}) {
        KernelGraph graph;
        Node y =
            graph.op("aten." + std::string(name), {graph.input(tensor)}, last);
        ASSERT_TRUE(isKernelOp(graph.last())) << name;
        expectSame(graph, {y}, sumsOf(tensor, GetParam()));
      }
    }
}

TEST_P(RowsTest, SumsOverTheLastDims) {
  KernelGraph graph;
  at::Tensor tensor = sample({4, 3, 5}, GetParam());
  Node y = graph.op("aten.sum.dim_IntList", {graph.input(tensor)},
                    {{"dim", Dims{1, 2}}});
  expectSame(graph, {y}, sumsOf(tensor, GetParam()));
}

TEST_P(RowsTest, SumsOverAllButTheLastDim) {
  for (const Dims &dims : {Dims{0, 1}, Dims{0}}) {
    KernelGraph graph;
    at::Tensor tensor = sample({40, 3, 37}, GetParam());
    Node y = graph.op("aten.sum.dim_IntList", {graph.input(tensor)},
                      {{"dim", dims}, {"keepdim", true}});
    expectSame(graph, {y}, sumsOf(tensor, GetParam()));
  }
}

TEST_P(RowsTest, SumsOverEverything) {
  for (const Sizes &sizes :
       {Sizes{40, 3, 37}, Sizes{37}, Sizes{1, 5}, Sizes{}}) {
    KernelGraph graph;
    at::Tensor tensor = sample(sizes, GetParam());
    Node y = graph.op("aten.sum", {graph.input(tensor)});
    expectSame(graph, {y}, sumsOf(tensor, GetParam()));
  }
}

TEST_P(RowsTest, SumsOfBf16AsF32) {
  KernelGraph graph;
  at::Tensor tensor = sample({4, 37}, GetParam());
  Node y = graph.op("aten.sum.dim_IntList", {graph.input(tensor)},
                    {{"dim", Dims{1}}, {"dtype", std::string("dtype:6")}});
  expectSame(graph, {y}, sumsOf(tensor, at::kFloat));
}

TEST_P(RowsTest, Softmax) {
  for (const at::Tensor &tensor : listRows(GetParam()))
    for (const char *name : {"_softmax", "_log_softmax"}) {
      SCOPED_TRACE(name + c10::str(tensor.sizes()));
      KernelGraph graph;
      Node y = graph.op("aten." + std::string(name), {graph.input(tensor)},
                        {{"dim", int64_t(-1)}, {"half_to_float", false}});
      // The logarithm of the sum is in the tensor's type: on the other side of
      // a border it is an ulp of its own apart.
      bool isRounded = std::string(name) == "_log_softmax";
      expectSame(graph, {y},
                 {GetParam() == at::kFloat ? 8. : 1.,
                  isRounded ? 16 * epsilonOf(GetParam()) : 1e-6});
    }
}

TEST_P(RowsTest, SafeSoftmax) {
  KernelGraph graph;
  at::Tensor tensor = sample({5, 37}, GetParam());
  tensor[2].fill_(-std::numeric_limits<double>::infinity());
  tensor[3][4].fill_(-std::numeric_limits<double>::infinity());
  Node y = graph.op("aten._safe_softmax", {graph.input(tensor)},
                    {{"dim", int64_t(-1)}});
  ASSERT_TRUE(isKernelOp(graph.last()));
  expectSame(graph, {y}, {GetParam() == at::kFloat ? 8. : 1., 1e-6});
}

TEST_P(RowsTest, SoftmaxBackward) {
  for (const at::Tensor &tensor : listRows(GetParam()))
    for (std::string name : {"_softmax", "_log_softmax"}) {
      SCOPED_TRACE(name + c10::str(tensor.sizes()));
      KernelGraph graph;
      at::Tensor made =
          runOperator("aten." + name, {{"self", {tensor}}},
                      {{"dim", int64_t(-1)}, {"half_to_float", false}})
              .front();
      at::Tensor gradient = sample(tensor.sizes().vec(), GetParam());
      Node y = graph.op(
          "aten." + name + "_backward_data",
          {graph.input(gradient), graph.input(made)},
          {{"dim", int64_t(-1)},
           {"input_dtype", "dtype:" + std::to_string(int(GetParam()))}});
      expectSame(graph, {y}, {GetParam() == at::kFloat ? 8. : 1., 1e-5});
    }
}

TEST_P(RowsTest, LayerNorm) {
  for (const at::Tensor &tensor : listRows(GetParam()))
    for (int parameters : {0, 1, 2}) {
      int64_t size = tensor.size(-1);
      if (size == 1)
        continue;
      SCOPED_TRACE(c10::str(tensor.sizes()));
      KernelGraph graph;
      Node x = graph.input(tensor), none;
      Node weight =
          parameters > 0 ? graph.input(sample({size}, GetParam())) : none;
      Node bias =
          parameters > 1 ? graph.input(sample({size}, GetParam())) : none;
      std::vector<Node> made =
          graph.all("aten.native_layer_norm", {x, weight, bias},
                    {{"normalized_shape", Dims{size}}, {"eps", 1e-5}});
      expectSame(graph, made, {GetParam() == at::kFloat ? 16. : 1., 4e-6});
    }
}

TEST_P(RowsTest, LayerNormOfTwoDimsWithWideWeights) {
  KernelGraph graph;
  Node x = graph.input(sample({5, 3, 8}, GetParam()));
  Node weight = graph.input(sample({3, 8}, at::kFloat)),
       bias = graph.input(sample({3, 8}, at::kFloat));
  std::vector<Node> made =
      graph.all("aten.native_layer_norm", {x, weight, bias},
                {{"normalized_shape", Dims{3, 8}}, {"eps", 1e-5}});
  expectSame(graph, made, {GetParam() == at::kFloat ? 16. : 1., 4e-6});
}

TEST_P(RowsTest, LayerNormBackward) {
  for (const at::Tensor &given : listRows(GetParam()))
    for (auto [isScaled, isMixed] :
         {std::pair{false, false}, {true, false}, {true, true}}) {
      int64_t size = given.size(-1);
      if (size == 1)
        continue;
      // LibTorch's backward kernel takes contiguous ones.
      at::Tensor tensor = given.contiguous();
      SCOPED_TRACE(c10::str(tensor.sizes()));
      std::vector<StaticArgument> statics{{"normalized_shape", Dims{size}}};
      // Beside weights of f32, what is kept of the rows is f32.
      at::Tensor weight = sample({size}, isMixed ? at::kFloat : GetParam());
      std::vector<at::Tensor> made = runOperator(
          "aten.native_layer_norm",
          {{"input", {tensor}}, {"weight", {weight}}, {"bias", {weight}}},
          {{"normalized_shape", Dims{size}}, {"eps", 1e-5}});
      KernelGraph graph;
      Node none;
      at::Tensor gradient = sample(tensor.sizes().vec(), GetParam());
      statics.push_back(
          {"output_mask", std::vector<bool>{true, isScaled, isScaled}});
      std::vector<Node> results = graph.all(
          "aten.native_layer_norm_backward",
          {graph.input(gradient), graph.input(tensor), graph.input(made[1]),
           graph.input(made[2]), isScaled ? graph.input(weight) : none,
           isScaled ? graph.input(weight) : none},
          statics);
      if (!isScaled)
        results.resize(1);
      double all = gradient.abs().to(at::kDouble).sum().item<double>();
      expectSame(
          graph, {results[0]},
          {GetParam() == at::kFloat ? 32. : 1., 4e-6 + 16 * 0x1p-24 * all});
      // LibTorch adds rows up in the tensor's type.
      if (isScaled)
        expectSame(graph, {results[1], results[2]},
                   {2, 16 * epsilonOf(GetParam()) * all / double(size), 1});
    }
}

TEST_P(RowsTest, CatAndSlices) {
  KernelGraph graph;
  at::Tensor tensor = sample({2, 6, 3, 8}, GetParam()).transpose(1, 2);
  Node x = graph.op("aten.clone", {graph.input(tensor)});
  auto slice = [&](int64_t start, int64_t end) {
    return graph.op("aten.slice.Tensor", {x},
                    {{"dim", int64_t(3)}, {"start", start}, {"end", end}});
  };
  Node right = graph.op("aten.neg", {slice(5, 1000)}), left = slice(0, 5);
  EXPECT_TRUE(isKernelView(graph.last()));
  Node y = graph.op("aten.cat", {std::vector<Node>{right, left, x}},
                    {{"dim", int64_t(-1)}});
  expectSame(graph, {x, y});
}

TEST_P(RowsTest, CatOfOtherDims) {
  KernelGraph graph;
  Node a = graph.input(sample({4, 2, 3}, GetParam())),
       b = graph.input(sample({4, 5, 3}, GetParam()));
  Node y =
      graph.op("aten.cat", {std::vector<Node>{a, b}}, {{"dim", int64_t(1)}});
  Node z = graph.op("aten.neg", {y});
  expectSame(graph, {z});
}

TEST_P(RowsTest, CatOfTypes) {
  KernelGraph graph;
  Node a = graph.input(sample({4, 3}, GetParam())),
       b = graph.input(sample({4, 5}, at::kFloat)),
       c = graph.input(sample({4, 1}, at::kLong));
  Node y =
      graph.op("aten.cat", {std::vector<Node>{a, b, c}}, {{"dim", int64_t(1)}});
  expectSame(graph, {y});
}

TEST_P(RowsTest, SplitsAndStacks) {
  KernelGraph graph;
  Node x = graph.op("aten.neg", {graph.input(sample({4, 6}, GetParam()))});
  std::vector<Node> parts =
      graph.all("aten.split.Tensor", {x},
                {{"split_size", int64_t(2)}, {"dim", int64_t(1)}});
  Node a = graph.op("aten.mul.Tensor", {parts[0], parts[2]});
  Node b = graph.op("aten.stack", {std::vector<Node>{a, parts[1]}},
                    {{"dim", int64_t(1)}});
  Node c = graph.op("aten.select.int", {x},
                    {{"dim", int64_t(1)}, {"index", int64_t(-2)}});
  Node d = graph.op("aten.neg", {c});
  expectSame(graph, {b, d});
}

TEST_P(RowsTest, SliceBackward) {
  for (auto [start, end] :
       {std::pair<int64_t, int64_t>{0, 3}, {2, 7}, {-3, 100}}) {
    KernelGraph graph;
    at::Tensor whole = sample({2, 3, 7}, GetParam());
    Node x = graph.input(whole.slice(2, start, end).contiguous());
    Node y = graph.op("aten.slice_backward", {x},
                      {{"input_sizes", Dims{2, 3, 7}},
                       {"dim", int64_t(2)},
                       {"start", start},
                       {"end", end},
                       {"step", int64_t(1)}});
    ASSERT_TRUE(isKernelOp(graph.last()));
    expectSame(graph, {y});
  }
}

TEST_P(RowsTest, SelectBackward) {
  KernelGraph graph;
  Node x = graph.input(sample({2, 3}, GetParam()));
  Node y = graph.op("aten.select_backward", {x},
                    {{"input_sizes", Dims{2, 3, 7}},
                     {"dim", int64_t(-1)},
                     {"index", int64_t(4)}});
  expectSame(graph, {y});
}

TEST_P(RowsTest, LossesOfRows) {
  KernelGraph graph;
  at::Tensor x = sample({7, 11}, GetParam()), target = at::randint(0, 11, {7});
  target[4] = 3; // to be ignored
  KernelGraph byLibTorch;
  at::Tensor want =
      byLibTorch
          .op("aten.nll_loss_forward",
              {byLibTorch.input(x), byLibTorch.input(target), Node()},
              {{"reduction", int64_t(0)}, {"ignore_index", int64_t(3)}})
          .tensor;
  Node y = graph.declare(
      "aten.nll_loss_forward", {graph.input(x), graph.input(target)},
      {{"reduction", int64_t(0)}, {"ignore_index", int64_t(3)}},
      {want, at::Tensor()})[0];
  ASSERT_TRUE(isKernelOp(graph.last()));
  expectSame(graph, {y});
  EXPECT_EQ(want[4].item<float>(), 0);
  // Means are sums of rows that somebody divides (SpellLosses.cpp).
  KernelGraph mean;
  (void)mean.declare("aten.nll_loss_forward",
                     {mean.input(x), mean.input(target)},
                     {{"reduction", int64_t(1)}, {"ignore_index", int64_t(3)}},
                     {want.sum(), at::Tensor()});
  EXPECT_FALSE(isKernelOp(mean.last()));
}

TEST_P(RowsTest, LossGradients) {
  for (int64_t reduction : {0, 1, 2}) {
    SCOPED_TRACE(reduction);
    KernelGraph graph;
    Node x = graph.input(sample({7, 11}, GetParam()));
    at::Tensor target = at::randint(0, 11, {7});
    target[2] = -100;
    Node g =
        graph.input(sample(reduction == 0 ? Sizes{7} : Sizes{}, GetParam()));
    Node total = graph.input((at::ones({}) * 6).to(GetParam()));
    Node y = graph.op(
        "aten.nll_loss_backward", {g, x, graph.input(target), Node(), total},
        {{"reduction", reduction}, {"ignore_index", int64_t(-100)}});
    ASSERT_TRUE(isKernelOp(graph.last()));
    expectSame(graph, {y});

    KernelGraph other;
    Node a = other.input(sample({7, 11}, GetParam())),
         b = other.input(sample({7, 11}, GetParam()));
    Node gradient = other.input(
        sample(reduction == 0 ? Sizes{7, 11} : Sizes{}, GetParam()));
    Node z = other.op("aten.mse_loss_backward", {gradient, a, b},
                      {{"reduction", reduction}});
    expectSame(other, {z});
  }
}

TEST_P(RowsTest, FusedRmsNorm) {
  for (bool isScaled : {false, true})
    for (const at::Tensor &tensor : listRows(GetParam())) {
      int64_t size = tensor.size(-1);
      if (size == 1)
        continue;
      SCOPED_TRACE(c10::str(tensor.sizes()));
      KernelGraph graph;
      Node none,
          weight = isScaled ? graph.input(sample({size}, GetParam())) : none;
      std::vector<Node> made =
          graph.all("aten._fused_rms_norm", {graph.input(tensor), weight},
                    {{"normalized_shape", Dims{size}}, {"eps", 1e-5}});
      expectSame(graph, made, {GetParam() == at::kFloat ? 8. : 2., 0});
    }
}

/// Of small numbers, so that what stands in for eps is seen.
TEST_P(RowsTest, FusedRmsNormWithoutEps) {
  KernelGraph graph;
  at::Tensor numbers = at::arange(6 * 24).sin(),
             small = (1e-4 * numbers).to(GetParam()).view({6, 24});
  std::vector<Node> made = graph.all(
      "aten._fused_rms_norm",
      {graph.input(small), graph.input(numbers.slice(0, 0, 24).to(GetParam()))},
      {{"normalized_shape", Dims{24}}});
  expectSame(graph, made, {GetParam() == at::kFloat ? 8. : 2., 0});
}

/// What each element of `x` adds to the sum of gradient * norm(x, weight).
static at::Tensor findSlope(const std::function<at::Tensor()> &sum,
                            at::Tensor &x) {
  constexpr double kStep = 1e-5;
  at::Tensor slope = at::empty_like(x), flat = x.view({-1});
  for (int64_t i = 0; i < x.numel(); ++i) {
    double value = flat[i].item<double>();
    flat[i] = value + kStep;
    double above = sum().item<double>();
    flat[i] = value - kStep;
    slope.view({-1})[i] = (above - sum().item<double>()) / (2 * kStep);
    flat[i] = value;
  }
  return slope;
}

TEST(FusedRmsNormTest, GradientsAreSlopes) {
  at::Tensor x = sample({3, 4, 7}, at::kFloat),
             weight = sample({7}, at::kFloat),
             gradient = sample({3, 4, 7}, at::kFloat);
  at::Tensor wide = x.to(at::kDouble), factors = weight.to(at::kDouble);
  auto root = [&] { return (wide.square().mean({-1}, true) + 0.1).rsqrt(); };
  auto sum = [&] { return (wide * root() * factors * gradient).sum(); };
  KernelGraph graph;
  std::vector<Node> made =
      graph.declare("aten._fused_rms_norm_backward",
                    {graph.input(gradient), graph.input(x),
                     graph.input(root().to(at::kFloat)), graph.input(weight)},
                    {{"normalized_shape", Dims{7}},
                     {"output_mask", std::vector<bool>{true, true}}},
                    {findSlope(sum, wide).to(at::kFloat),
                     findSlope(sum, factors).to(at::kFloat)});
  expectSame(graph, made, {8, 1e-5});
}

INSTANTIATE_TEST_SUITE_P(All, RowsTest, testing::ValuesIn(listFloats()),
                         [](const auto &info) { return nameOf(info.param); });

} // namespace
