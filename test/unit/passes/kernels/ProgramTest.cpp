//===- ProgramTest.cpp - Groups of operators as programs ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "KernelGraph.h"
#include "Samples.h"

#include "plan/Kernels.h"

#include <ATen/ops/ones.h>

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// The program as text, without indents.
std::string linesOf(const plan::KernelProgramT &program) {
  std::string text = toText(program), lines;
  bool isStart = true;
  for (char c : text) {
    isStart = (isStart && c == ' ') || c == '\n';
    if (!isStart || c == '\n')
      lines += c;
  }
  return lines;
}

TEST(KernelProgramTest, ContiguousElementsAreOneRow) {
  KernelGraph graph;
  Node a = graph.input(sample({3, 5, 7}, at::kFloat)),
       b = graph.input(sample({3, 5, 7}, at::kFloat));
  Node sum = graph.op("aten.add.Tensor", {a, b});
  Node result = graph.op("aten.mul.Tensor", {sum, a});
  std::optional<KernelOfOps> kernel = graph.build({result});
  ASSERT_TRUE(kernel) << graph.why;
  EXPECT_TRUE(isFlat(kernel->program));
  EXPECT_EQ(linesOf(kernel->program),
            "rows []\n"
            "operand 0: f32 strides [], 105 columns\n"
            "operand 1: f32 strides [], 105 columns\n"
            "operand 2: f32 strides [], 105 columns = %3\n"
            "%0 = load 0\n"
            "%1 = load 1\n"
            "%2 = add %0, %1\n"
            "%3 = mul %2, %0\n");
  expectSame(graph, {result});
}

/// What is joined lies as one, whatever dims it has.
TEST(KernelProgramTest, RowsEndWithinDims) {
  KernelGraph graph;
  Node x = graph.input(at::ones({32, 3, 5}, at::kBFloat16));
  Node wide =
      graph.op("aten._to_copy", {x}, {{"dtype", std::string("dtype:6")}});
  Node rows =
      graph.op("aten.view", {wide}, {{"size", std::vector<int64_t>{20, 24}}});
  Node squares = graph.op("aten.mul.Tensor", {rows, rows});
  Node sums = graph.op("aten.sum.dim_IntList", {squares},
                       {{"dim", std::vector<int64_t>{1}}, {"keepdim", false}});
  std::optional<KernelOfOps> kernel = graph.build({wide, sums});
  ASSERT_TRUE(kernel) << graph.why;
  EXPECT_EQ(linesOf(kernel->program),
            "rows [20]\n"
            "operand 0: bf16 strides [24], 24 columns\n"
            "operand 1: f32 strides [24], 24 columns = %0\n"
            "operand 2: f32 strides [1] = %2\n"
            "%0 = load 0\n"
            "%1 = mul %0, %0\n"
            "%2 = sum_columns %1\n");
}

TEST(KernelProgramTest, RmsNorm) {
  KernelGraph graph;
  Node x = graph.input(sample({2, 8, 16}, at::kBFloat16));
  Node weight = graph.input(sample({16}, at::kBFloat16));
  Node wide =
      graph.op("aten._to_copy", {x}, {{"dtype", std::string("dtype:6")}});
  Node square =
      graph.op("aten.pow.Tensor_Scalar", {wide}, {{"exponent", int64_t(2)}});
  Node mean = graph.op("aten.mean.dim", {square},
                       {{"dim", std::vector<int64_t>{2}}, {"keepdim", true}});
  Node sum = graph.op("aten.add.Scalar", {mean}, {{"other", 0.5}});
  Node rstd = graph.op("aten.rsqrt", {sum});
  Node normal = graph.op("aten.mul.Tensor", {wide, rstd});
  Node scaled = graph.op("aten.mul.Tensor", {normal, weight});
  Node result =
      graph.op("aten._to_copy", {scaled}, {{"dtype", std::string("dtype:15")}});
  std::optional<KernelOfOps> kernel = graph.build({result, rstd});
  ASSERT_TRUE(kernel) << graph.why;
  EXPECT_EQ(linesOf(kernel->program),
            "rows [16]\n"
            "operand 0: bf16 strides [16], 16 columns\n"
            "operand 1: bf16 strides [0], 16 columns\n"
            "operand 2: bf16 strides [16], 16 columns = %13\n"
            "operand 3: f32 strides [1] = %9\n"
            "%0 = load 0\n"
            "%1 = mul %0, %0\n"
            "%2 = sum_columns %1\n"
            "%3 = constant 16\n"
            "%4 = div %2, %3\n"
            "%5 = constant 0.5\n"
            "%6 = add %4, %5\n"
            "%7 = sqrt %6\n"
            "%8 = constant 1\n"
            "%9 = div %8, %7\n"
            "%10 = mul %0, %9\n"
            "%11 = load 1\n"
            "%12 = mul %10, %11\n"
            "%13 = round_bf16 %12\n");
  expectSame(graph, {result, rstd}, {1, 1e-6});
}

TEST(KernelProgramTest, SumsOverTheLastDimAreRows) {
  KernelGraph graph;
  Node a = graph.input(sample({4, 6, 33}, at::kBFloat16));
  Node wide =
      graph.op("aten._to_copy", {a}, {{"dtype", std::string("dtype:6")}});
  Node sum = graph.op("aten.sum.dim_IntList", {wide},
                      {{"dim", std::vector<int64_t>{-1}}, {"keepdim", true}});
  Node result = graph.op("aten.mul.Tensor", {wide, sum});
  expectSame(graph, {result, sum}, {0, 1e-4});
}

TEST(KernelProgramTest, ViewsKeepTheOrder) {
  KernelGraph graph;
  Node a = graph.input(sample({4, 6, 32}, at::kFloat));
  Node neg = graph.op("aten.neg", {a});
  Node view =
      graph.op("aten.view", {neg}, {{"size", std::vector<int64_t>{24, 4, 8}}});
  Node b = graph.input(sample({4, 24, 8}, at::kFloat).transpose(0, 1));
  Node result = graph.op("aten.add.Tensor", {view, b});
  expectSame(graph, {result});
}

TEST(KernelProgramTest, SumsOverRows) {
  KernelGraph graph;
  Node a = graph.input(sample({4, 6, 33}, at::kFloat));
  Node neg = graph.op("aten.neg", {a});
  Node sum = graph.op("aten.sum.dim_IntList", {neg},
                      {{"dim", std::vector<int64_t>{0, 1}}});
  expectSame(graph, {neg, sum}, {0, 1e-5});
}

TEST(KernelProgramTest, BroadcastVectorOfRowsIsRefused) {
  KernelGraph graph;
  Node a = graph.input(sample({5, 5}, at::kFloat));
  Node sum = graph.op("aten.sum.dim_IntList", {a},
                      {{"dim", std::vector<int64_t>{-1}}});
  Node result = graph.op("aten.mul.Tensor", {a, sum});
  expectRefused(graph, {result}, "rows of different numbers");
}

} // namespace
