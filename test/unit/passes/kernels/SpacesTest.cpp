//===- SpacesTest.cpp - Which rows and columns a group has ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "KernelGraph.h"
#include "Samples.h"

#include "plan/Kernels.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

const at::ScalarType kBf16 = at::kBFloat16;

class KernelSpacesTest : public testing::Test {
protected:
  Node give(const Sizes &sizes, at::ScalarType dtype = at::kFloat) {
    return graph.input(sample(sizes, dtype));
  }
  Node sumOfRows(Node x, bool keepdim) {
    return graph.op("aten.sum.dim_IntList", {x},
                    {{"dim", Sizes{-1}}, {"keepdim", keepdim}});
  }
  Node mul(Node a, Node b) { return graph.op("aten.mul.Tensor", {a, b}); }
  Node neg(Node a) { return graph.op("aten.neg", {a}); }
  Node view(Node a, const Sizes &sizes) {
    return graph.op("aten.view", {a}, {{"size", sizes}});
  }
  std::vector<int64_t> rowsOf(const std::vector<Node> &results) {
    std::optional<KernelOfOps> kernel = graph.build(results);
    EXPECT_TRUE(kernel) << graph.why;
    return kernel ? kernel->program.rows : std::vector<int64_t>{-1};
  }
  KernelGraph graph;
};

using Rows = std::vector<int64_t>;

TEST_F(KernelSpacesTest, EqualLayoutsAreFlat) {
  Node a = graph.input(sample({2, 7, 3, 8}, kBf16).transpose(1, 2));
  Node b = graph.input(sample({2, 7, 3, 8}, kBf16).transpose(1, 2));
  Node y = neg(mul(a, b));
  std::optional<KernelOfOps> kernel = graph.build({y});
  ASSERT_TRUE(kernel) << graph.why;
  EXPECT_TRUE(isFlat(kernel->program));
  expectSame(graph, {y});
}

TEST_F(KernelSpacesTest, StridedOperandsHaveTheLastDimAsColumns) {
  Node a = graph.input(sample({2, 7, 3, 8}, kBf16).transpose(1, 2));
  Node y = neg(mul(a, give({2, 3, 7, 8})));
  EXPECT_EQ(rowsOf({y}), (Rows{2, 7, 3})) << "as the result lies";
  expectSame(graph, {y});
}

TEST_F(KernelSpacesTest, BroadcastRowsAreRead) {
  Node y = neg(mul(give({4, 6, 33}), give({33})));
  EXPECT_EQ(rowsOf({y}), Rows{24});
  expectSame(graph, {y});
}

TEST_F(KernelSpacesTest, WeightsOfHeadsAreSplit) {
  // A weight of all heads, and a norm of each.
  Node x = mul(give({5, 12}), give({12}));
  Node heads = view(x, {5, 3, 4});
  Node y = mul(heads, sumOfRows(heads, true));
  EXPECT_EQ(rowsOf({y}), (Rows{5, 3}));
  expectSame(graph, {y, x}, {0, 1e-4});
}

TEST_F(KernelSpacesTest, OneRowForAllIsMadeInside) {
  Node weight = graph.op("aten._to_copy", {give({33}, kBf16)},
                         {{"dtype", std::string("dtype:6")}});
  Node y = mul(give({4, 6, 33}), weight);
  EXPECT_EQ(rowsOf({y}), Rows{24});
  expectSame(graph, {y});
}

TEST_F(KernelSpacesTest, OneRowForAllIsNoResult) {
  Node weight = neg(give({33}));
  Node y = mul(give({4, 6, 33}), weight);
  expectRefused(graph, {y, weight}, "the same for all rows");
}

TEST_F(KernelSpacesTest, OneRowWhoseSizeDividesRows) {
  // 8 columns are a number of rows as well.
  Node weight = neg(give({8}));
  Node y = mul(give({4, 2, 8}), weight);
  Node z = sumOfRows(y, false);
  expectSame(graph, {y, z}, {0, 1e-5});
}

TEST_F(KernelSpacesTest, NumbersMadeInsideAreBroadcast) {
  Node factor = neg(give({}));
  Node x = give({4, 33});
  Node y = mul(x, factor), z = mul(y, sumOfRows(x, true));
  expectSame(graph, {z, y}, {0, 1e-4});
}

TEST_F(KernelSpacesTest, ExpandedValues) {
  auto expand = [&](Node node) {
    return graph.op("aten.expand", {node}, {{"size", Sizes{4, 6, 33}}});
  };
  Node x = give({4, 6, 33});
  Node rows = expand(sumOfRows(x, true)), row = expand(neg(give({33})));
  Node all = expand(neg(give({1, 1})));
  // A result of each, one of a sum of what is one number a row.
  Node copy = graph.op("aten.clone", {rows});
  Node sums = sumOfRows(copy, true);
  Node y = mul(mul(rows, row), all);
  expectSame(graph, {y, copy, sums}, {0, 2e-3});
}

TEST_F(KernelSpacesTest, DimsOfSizeOneMove) {
  Node x = neg(give({4, 1, 6}));
  Node moved = graph.op("aten.transpose.int", {x},
                        {{"dim0", int64_t(0)}, {"dim1", int64_t(1)}});
  Node less = graph.op("aten.squeeze.dim", {moved}, {{"dim", int64_t(0)}});
  Node y = mul(less, give({4, 6}));
  expectSame(graph, {y});
}

TEST_F(KernelSpacesTest, ResultsWithOneColumn) {
  Node x = neg(give({4, 6, 33}));
  Node sum = sumOfRows(x, false);
  Node y = neg(sum);
  expectSame(graph, {y, sum}, {0, 1e-4});
}

TEST_F(KernelSpacesTest, VectorOfRowsAlongColumnsIsRefused) {
  Node x = give({5, 5});
  Node y = mul(x, sumOfRows(x, false));
  expectRefused(graph, {y}, "rows of different numbers");
}

TEST_F(KernelSpacesTest, BroadcastOfAMiddleDimIsRefused) {
  Node x = neg(give({2, 1, 6, 8}));
  Node y = mul(give({2, 3, 6, 8}), x);
  expectRefused(graph, {y}, "in another way than along rows or columns");
}

TEST_F(KernelSpacesTest, OuterProductOfValuesInsideIsRefused) {
  Node a = neg(give({2, 3, 1})), b = neg(give({1, 4}));
  Node y = mul(a, b);
  // Rows of 3 and rows of 6 are asked for.
  Node z = sumOfRows(mul(y, give({2, 3, 4})), false);
  expectSame(graph, {y, z}, {0, 1e-4});
}

TEST_F(KernelSpacesTest, RowsOfTwoSizesAreRefused) {
  Node x = give({4, 6});
  Node a = mul(x, sumOfRows(x, true));
  Node b = view(a, {4, 2, 3});
  Node y = mul(b, sumOfRows(b, true));
  expectRefused(graph, {y}, "rows of different numbers");
}

TEST_F(KernelSpacesTest, TransposesInsideAreRefused) {
  Node x = neg(give({4, 6}));
  Node y = neg(graph.op("aten.t", {x}));
  expectRefused(graph, {y}, "kernels do not know aten.t ");
}

TEST_F(KernelSpacesTest, SumsOverRowsAreNoOperands) {
  Node sum =
      graph.op("aten.sum.dim_IntList", {give({4, 6})}, {{"dim", Sizes{0}}});
  Node y = neg(sum);
  expectRefused(graph, {y}, "reads a sum over rows");
}

TEST_F(KernelSpacesTest, RowsWithoutCommonDimsAreRefused) {
  // 6 rows as 2 x 3, with a gap, and as 3 x 2, with another one.
  Node a = graph.input(sample({2, 4, 8}, at::kFloat).slice(1, 0, 3));
  Node b = graph.input(sample({3, 3, 8}, at::kFloat).slice(1, 0, 2));
  Node y = mul(view(neg(a), {6, 8}), view(neg(b), {6, 8}));
  expectRefused(graph, {y}, "no dims in common");
}

TEST_F(KernelSpacesTest, OperandsReadInTwoWaysAreRefused) {
  Node x = give({5, 5}), v = give({5});
  Node y = mul(x, v);
  Node z = mul(y, graph.op("aten.unsqueeze", {neg(v)}, {{"dim", int64_t(1)}}));
  expectRefused(graph, {z}, "");
}

TEST_F(KernelSpacesTest, LongLonelyRowsAreLeftToLibTorch) {
  Node x = neg(give({100000}));
  expectRefused(graph, {sumOfRows(x, true)}, "few rows have too many columns");
}

TEST_F(KernelSpacesTest, ManyRowsGoBeforeLongOnes) {
  Node y = neg(mul(give({2, 300, 400}), give({2, 1, 1})));
  EXPECT_EQ(rowsOf({y}), (Rows{2, 300}));
}

TEST_F(KernelSpacesTest, LongRowsGoBeforeShortOnes) {
  Node y = neg(mul(give({20, 70000}), give({20, 1})));
  EXPECT_EQ(rowsOf({y}), Rows{20});
}

TEST_F(KernelSpacesTest, InputsHaveNoTwins) {
  Node x = give({4, 6, 8});
  Node a = neg(x), b = view(a, {24, 8});
  Node y =
      mul(mul(b, a.value ? view(a, {24, 8}) : b), graph.op("aten.abs", {b}));
  std::optional<KernelOfOps> kernel = graph.build({y, a});
  ASSERT_TRUE(kernel) << graph.why;
  EXPECT_EQ(kernel->inputs.size(), 1u);
  expectSame(graph, {y, a});
}

TEST_F(KernelSpacesTest, WhatNobodyNeedsIsLeftOut) {
  Node x = give({4, 6}), unused = give({4, 6});
  mul(x, unused);
  Node y = neg(x);
  std::optional<KernelOfOps> kernel = graph.build({y});
  ASSERT_TRUE(kernel) << graph.why;
  EXPECT_EQ(kernel->inputs.size(), 1u);
  EXPECT_EQ(kernel->program.ops.size(), 2u);
}

TEST_F(KernelSpacesTest, RotatedHalves) {
  // As of rotary embeddings, in bf16, of heads that are not contiguous.
  Node q = graph.input(sample({2, 9, 3, 8}, kBf16).transpose(1, 2));
  Node x = neg(q);
  auto slice = [&](int64_t start, int64_t end) {
    return graph.op("aten.slice.Tensor", {x},
                    {{"dim", int64_t(3)}, {"start", start}, {"end", end}});
  };
  Node turned =
      graph.op("aten.cat", {std::vector<Node>{neg(slice(4, 8)), slice(0, 4)}},
               {{"dim", int64_t(-1)}});
  Node y = graph.op("aten.add.Tensor",
                    {mul(x, give({9, 8})), mul(turned, give({9, 8}))});
  EXPECT_EQ(rowsOf({y}), (Rows{2, 3, 9}));
  expectSame(graph, {y});
}

} // namespace

TEST_F(KernelSpacesTest, MorePiecesOfColumnsThanThereIsCodeForAreRefused) {
  Node x = neg(give({3, 1}));
  auto stack = [&](size_t count) {
    return graph.op("aten.stack", {std::vector<Node>(count, x)},
                    {{"dim", int64_t(-1)}});
  };
  EXPECT_TRUE(graph.build({stack(8)})) << graph.why;
  expectRefused(graph, {stack(1030)}, "more code than a kernel may have");
}

TEST_F(KernelSpacesTest, MoreOperatorsThanThereIsCodeForAreRefused) {
  Node x = give({4, 6});
  for (int i = 0; i < 60; ++i)
    x = graph.op("aten.tanh", {x});
  EXPECT_TRUE(graph.build({x})) << graph.why;
  for (int i = 0; i < 60; ++i)
    x = graph.op("aten.tanh", {x});
  expectRefused(graph, {x}, "more code than a kernel may have");
}
