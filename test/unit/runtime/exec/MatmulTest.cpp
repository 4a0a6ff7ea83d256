//===- MatmulTest.cpp - Which library multiplies matrices -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

using namespace fsdp;

namespace {

class Matmul : public testing::Test {
protected:
  void SetUp() override { setMatmulLibrary(MatmulLibrary::onednn); }
  void TearDown() override { setMatmulLibrary(MatmulLibrary::automatic); }

  static std::optional<at::Tensor>
  multiply(const char *name, const std::vector<c10::IValue> &arguments) {
    auto call = replaceMatmul(name, "", arguments);
    if (!call)
      return std::nullopt;
    std::vector<c10::IValue> stack = call->arguments;
    call->op.callBoxed(stack);
    return stack[0].toTensor();
  }
  static void expectClose(const std::optional<at::Tensor> &found,
                          const at::Tensor &expected) {
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->is_contiguous());
    EXPECT_TRUE(found->allclose(expected, 1e-4, 1e-3));
  }

  at::Tensor rows = at::randn({256, 512}), weight = at::randn({384, 512}),
             columns = at::randn({512, 384}), bias = at::randn({384});
};

TEST_F(Matmul, LargeProductsAreTheSame) {
  expectClose(multiply("aten::mm", {rows, weight.t()}),
              at::mm(rows, weight.t()));
  expectClose(multiply("aten::mm", {rows, columns}), at::mm(rows, columns));
  expectClose(multiply("aten::addmm", {bias, rows, weight.t(), 1, 1}),
              at::addmm(bias, rows, weight.t()));
  at::Tensor sum = at::randn({256, 384});
  expectClose(multiply("aten::addmm", {sum, rows, weight.t(), 1, 1}),
              at::addmm(sum, rows, weight.t()));
  expectClose(multiply("aten::addmm", {sum, rows, columns, 1, 1}),
              at::addmm(sum, rows, columns));
}

TEST_F(Matmul, OthersAreLeftAlone) {
  // Small, of few rows, of columns, of another type, with factors.
  at::Tensor small = at::randn({64, 64}), few = at::randn({8, 4096});
  EXPECT_FALSE(multiply("aten::mm", {small, small}));
  EXPECT_FALSE(multiply("aten::mm", {few, at::randn({4096, 4096})}));
  EXPECT_FALSE(multiply("aten::mm", {columns.t(), at::randn({512, 512})}));
  EXPECT_FALSE(
      multiply("aten::mm", {rows.to(at::kDouble), columns.to(at::kDouble)}));
  EXPECT_FALSE(multiply("aten::addmm", {bias, rows, columns, 2, 1}));
  EXPECT_FALSE(multiply("aten::addmm", {bias, rows, columns, 1, 2}));
  EXPECT_FALSE(multiply("aten::addmm",
                        {at::randn({384, 256}).t(), rows, columns, 1, 1}));
  EXPECT_FALSE(
      multiply("aten::addmm", {at::randn({256, 1}), rows, columns, 1, 1}));
  EXPECT_FALSE(multiply("aten::bmm", {rows, columns}));
}

TEST_F(Matmul, CanBeThatOfPyTorch) {
  setMatmulLibrary(MatmulLibrary::blas);
  EXPECT_FALSE(multiply("aten::mm", {rows, columns}));
}

} // namespace
