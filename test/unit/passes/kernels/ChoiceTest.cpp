//===- ChoiceTest.cpp - Functions of three tensors, masks and constants ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "KernelGraph.h"
#include "Samples.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

class ChoiceTest : public testing::TestWithParam<at::ScalarType> {
protected:
  Node give(const Sizes &sizes) { return give(sizes, GetParam()); }
  Node give(const Sizes &sizes, at::ScalarType dtype) {
    return graph.input(sample(sizes, dtype, true));
  }
  KernelGraph graph;
};

TEST_P(ChoiceTest, Where) {
  Node y = graph.op("aten.where.self",
                    {give({5, 37}, at::kBool), give({3, 5, 37}), give({5, 1})});
  expectSame(graph, {y});
}

TEST_P(ChoiceTest, WhereOfTypes) {
  Node y =
      graph.op("aten.where.self", {give({3, 5, 37}, at::kBool),
                                   give({3, 5, 37}, at::kFloat), give({37})});
  expectSame(graph, {y});
}

TEST_P(ChoiceTest, WhereOfNumbers) {
  Node y = graph.op("aten.where.self", {give({3, 37}, at::kBool), give({3, 37}),
                                        graph.wrapped(0.3)});
  Node z = graph.op("aten.where.self", {give({3, 37}, at::kBool), give({3, 37}),
                                        graph.constant(-2, {}, at::kFloat)});
  expectSame(graph, {y, z});
}

TEST_P(ChoiceTest, MaskedFill) {
  Node x = give({3, 5, 37}), mask = give({5, 37}, at::kBool);
  Node y = graph.op("aten.masked_fill.Scalar", {x, mask}, {{"value", -65504.}});
  Node z = graph.op("aten.masked_fill.Tensor", {x, mask, give({}, at::kFloat)});
  Node v = graph.op("aten.masked_fill.Scalar", {x, mask}, {{"value", 0.3}});
  expectSame(graph, {y, z, v});
}

TEST_P(ChoiceTest, Addcmul) {
  for (double value : {1., 0.7}) {
    Node y = graph.op("aten.addcmul",
                      {give({3, 5, 37}), give({5, 37}), give({3, 5, 37})},
                      {{"value", value}});
    expectSame(graph, {y}, {1, 1e-5});
  }
}

TEST_P(ChoiceTest, Addcdiv) {
  Node y = graph.op("aten.addcdiv",
                    {give({3, 5, 37}), give({5, 37}), give({3, 5, 37})},
                    {{"value", 0.7}});
  expectSame(graph, {y});
}

TEST_P(ChoiceTest, DropoutBackward) {
  Node y =
      graph.op("aten.native_dropout_backward",
               {give({3, 37}), give({3, 37}, at::kBool)}, {{"scale", 1 / 0.9}});
  expectSame(graph, {y});
}

TEST_P(ChoiceTest, ProductsWithMasks) {
  Node y =
      graph.op("aten.mul.Tensor", {give({3, 37}), give({3, 37}, at::kBool)});
  Node z = graph.op("aten.mul.Tensor", {y, graph.wrapped(1 / 0.9)});
  Node v = graph.op("aten.div.Tensor", {z, graph.wrapped(0.9)});
  expectSame(graph, {y, z, v});
}

TEST_P(ChoiceTest, NumbersOnEitherSide) {
  Node x = give({3, 37});
  std::vector<Node> made;
  for (const char *name :
       {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor",
        "aten.div.Tensor", "aten.maximum", "aten.lt.Tensor"})
    for (Node number : {graph.wrapped(0.3), graph.constant(0.3, {}, at::kFloat),
                        graph.constant(3, {}, at::kLong),
                        graph.constant(0.3, {1}, GetParam())}) {
      made.push_back(graph.op(name, {x, number}));
      made.push_back(graph.op(name, {number, x}));
    }
  expectSame(graph, made);
}

TEST_P(ChoiceTest, Truths) {
  Node a = give({3, 37}, at::kBool), b = give({3, 37}, at::kBool);
  std::vector<Node> made;
  for (const char *name :
       {"aten.bitwise_and.Tensor", "aten.bitwise_or.Tensor",
        "aten.bitwise_xor.Tensor", "aten.logical_and", "aten.eq.Tensor",
        "aten.mul.Tensor", "aten.lt.Tensor"})
    made.push_back(graph.op(name, {a, b}));
  made.push_back(graph.op("aten.bitwise_not", {a}));
  made.push_back(graph.op("aten.ne.Scalar", {give({3, 37}, at::kLong)},
                          {{"other", int64_t(2)}}));
  made.push_back(
      graph.op("aten.ge.Scalar", {give({3, 37}, at::kLong)}, {{"other", 0.5}}));
  made.push_back(
      graph.op("aten._to_copy", {a},
               {{"dtype", "dtype:" + std::to_string(int(GetParam()))}}));
  made.push_back(
      graph.op("aten._to_copy", {a}, {{"dtype", std::string("dtype:4")}}));
  expectSame(graph, made);
}

TEST_P(ChoiceTest, Integers) {
  Node a = give({3, 37}, at::kLong), b = give({3, 37}, at::kInt);
  std::vector<Node> made{
      graph.op("aten.add.Tensor", {a, b}),
      graph.op("aten.mul.Tensor", {a, b}),
      graph.op("aten.sub.Tensor", {a, b}, {{"alpha", int64_t(3)}}),
      graph.op("aten.add.Scalar", {a},
               {{"other", std::numeric_limits<int64_t>::max()}}),
      graph.op("aten._to_copy", {b}, {{"dtype", std::string("dtype:4")}}),
      graph.op("aten.div.Tensor", {a, b}),
      graph.op("aten._to_copy", {b},
               {{"dtype", "dtype:" + std::to_string(int(GetParam()))}})};
  expectSame(graph, made);
}

TEST_P(ChoiceTest, LogSigmoid) {
  Node x = graph.input(sample({3, 37}, GetParam()));
  std::vector<Node> made = graph.all("aten.log_sigmoid_forward", {x});
  made.push_back(graph.op("aten.log_sigmoid_backward",
                          {graph.input(sample({3, 37}, GetParam())), x,
                           graph.input(made[1].tensor)}));
  expectSame(graph, made, {4, 1e-7});
}

TEST_P(ChoiceTest, FilledTensors) {
  std::string dtype = "dtype:" + std::to_string(int(GetParam()));
  Node ones =
      graph.op("aten.ones", {}, {{"size", Sizes{3, 37}}, {"dtype", dtype}});
  Node full =
      graph.op("aten.full", {},
               {{"size", Sizes{3, 37}}, {"fill_value", 0.3}, {"dtype", dtype}});
  Node y = graph.op("aten.mul.Tensor", {give({3, 37}), full});
  Node z = graph.op("aten.add.Tensor", {y, ones});
  expectSame(graph, {z, full});
}

INSTANTIATE_TEST_SUITE_P(All, ChoiceTest, testing::ValuesIn(listFloats()),
                         [](const auto &info) { return nameOf(info.param); });

// What kernels do not know.

TEST(UnknownTest, TypesAndArguments) {
  auto isKnown = [](const std::string &name,
                    const std::vector<at::Tensor> &tensors,
                    const std::vector<StaticArgument> &statics = {}) {
    KernelGraph graph;
    std::vector<NodeArgument> nodes;
    for (const at::Tensor &tensor : tensors)
      nodes.push_back(graph.input(tensor));
    graph.op(name, nodes, statics);
    return isKernelOp(graph.last());
  };
  at::Tensor f32 = sample({3, 4}, at::kFloat), i64 = sample({3, 4}, at::kLong),
             i32 = sample({3, 4}, at::kInt), f64 = sample({3, 4}, at::kDouble);
  EXPECT_TRUE(isKnown("aten.add.Tensor", {f32, f32}));
  EXPECT_FALSE(isKnown("aten.add.Tensor", {f64, f64})) << "f64";
  EXPECT_FALSE(isKnown("aten.add.Tensor", {f32, f64})) << "f64 with dims";
  EXPECT_FALSE(isKnown("aten.add.Tensor", {i32, i32})) << "results of i32";
  EXPECT_FALSE(isKnown("aten.add_.Tensor", {f32, f32})) << "in place";
  EXPECT_FALSE(isKnown("aten.sum", {i64})) << "a sum of integers";
  EXPECT_FALSE(
      isKnown("aten._to_copy", {f32}, {{"dtype", std::string("dtype:4")}}))
      << "numbers to integers";
  EXPECT_FALSE(isKnown("aten.pow.Tensor_Scalar", {f32}, {{"exponent", 1.5}}));
  EXPECT_FALSE(isKnown("aten.div.Tensor_mode", {f32, f32},
                       {{"rounding_mode", std::string("floor")}}));
  EXPECT_FALSE(isKnown("aten._softmax", {f32},
                       {{"dim", int64_t(0)}, {"half_to_float", false}}))
      << "not along the last dim";
  EXPECT_FALSE(isKnown("aten.mean.dim", {f32}, {{"dim", Sizes{0}}}))
      << "a mean over rows";
  EXPECT_FALSE(isKnown("aten.slice_backward", {sample({3, 2}, at::kFloat)},
                       {{"input_sizes", Sizes{3, 4}},
                        {"dim", int64_t(1)},
                        {"start", int64_t(0)},
                        {"end", int64_t(4)},
                        {"step", int64_t(2)}}))
      << "in steps";
  EXPECT_FALSE(isKnown("aten.add.Tensor",
                       {sample({0, 4}, at::kFloat), f32.slice(0, 0, 1)}))
      << "no elements";
  EXPECT_FALSE(isKnown("aten.mm", {f32, f32.t()})) << "no rule";
  EXPECT_FALSE(isKnown("aten.bernoulli", {f32.abs() / 100})) << "random";
}

TEST(UnknownTest, ViewsThatMoveElements) {
  auto isView = [](const std::string &name, const at::Tensor &tensor,
                   const std::vector<StaticArgument> &statics) {
    KernelGraph graph;
    graph.op(name, {graph.input(tensor)}, statics);
    EXPECT_FALSE(isKernelOp(graph.last()));
    return isKernelView(graph.last());
  };
  at::Tensor x = sample({3, 4}, at::kFloat),
             ones = sample({3, 1, 4}, at::kFloat);
  EXPECT_TRUE(isView("aten.view", x, {{"size", Sizes{2, 6}}}));
  EXPECT_TRUE(isView("aten.unsqueeze", x, {{"dim", int64_t(1)}}));
  EXPECT_TRUE(isView("aten.expand", ones, {{"size", Sizes{3, 5, 4}}}));
  EXPECT_TRUE(isView("aten.transpose.int", ones,
                     {{"dim0", int64_t(0)}, {"dim1", int64_t(1)}}));
  EXPECT_TRUE(isView("aten.slice.Tensor", x,
                     {{"dim", int64_t(1)}, {"start", int64_t(1)}}));
  EXPECT_FALSE(
      isView("aten.view.dtype", x, {{"dtype", std::string("dtype:3")}}))
      << "the same bits as integers";
  EXPECT_FALSE(isView("aten.t", x, {}));
  EXPECT_FALSE(isView("aten.permute", ones, {{"dims", Sizes{2, 0, 1}}}));
  EXPECT_FALSE(isView("aten.slice.Tensor", x,
                      {{"dim", int64_t(1)}, {"step", int64_t(2)}}));
}

} // namespace
