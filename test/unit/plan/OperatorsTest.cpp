//===- OperatorsTest.cpp - What artifacts may call ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Operators.h"

#include "plan/Reader.h"
#include "plan/Writer.h"
#include "support/Error.h"
#include "test/unit/plan/SamplePlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

using namespace fsdp;
using namespace fsdp::plan;
using ::testing::HasSubstr;

namespace {

TEST(Operators, WhatReachesBeyondTensorsIsNotAllowed) {
  for (auto [name, overload] :
       std::initializer_list<std::pair<const char *, const char *>>{
           {"aten::from_file", ""},
           {"aten::save", ""},
           {"aten::set", "source_Tensor"},
           {"aten::set_", "source_Storage"},
           {"aten::resize", ""},
           {"aten::resize_", ""},
           {"aten::record_stream", ""},
           {"aten::_print", ""},
           {"aten::_reshape_alias", ""},
           {"aten::add_", "Tensor"},
           {"aten::add", "out"},
           {"aten::_pin_memory", ""},
           {"aten::fbgemm_linear_int8_weight", ""},
           {"aten::_sparse_coo_tensor_unsafe", ""},
           {"aten::_nested_view_from_buffer", ""},
           {"aten::ctc_loss", "IntList"},
           {"aten::max_pool2d", ""},
           {"prim::Print", ""},
           {"c10d::allreduce_", ""},
           {"", ""}})
    EXPECT_FALSE(isAllowedOperator(name, overload)) << name;
}

TEST(Operators, WhatModelsComputeWithIsAllowed) {
  for (auto [name, overload] :
       std::initializer_list<std::pair<const char *, const char *>>{
           {"aten::mm", ""},
           {"aten::add", "Tensor"},
           {"aten::gelu", ""},
           {"aten::embedding_dense_backward", ""},
           {"aten::convolution_backward", ""},
           {"aten::max_pool2d_with_indices_backward", ""},
           {"aten::_scaled_dot_product_flash_attention_for_cpu", ""},
           {"aten::_scaled_dot_product_flash_attention_backward", ""},
           {"aten::_scaled_dot_product_cudnn_attention", ""},
           {"aten::view", ""},
           {"aten::as_strided", ""},
           {"aten::split_with_sizes", ""},
           {"aten::div", "Tensor_mode"},
           {"aten::native_batch_norm_backward", ""}})
    EXPECT_TRUE(isAllowedOperator(name, overload)) << name;
}

void expectRefused(const std::function<void()> &read, const char *text) {
  try {
    read();
    ADD_FAILURE() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::ArtifactNotTrusted) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(Operators, AnArtifactThatCallsOthersIsRefusedAlsoIfItIsTrusted) {
  PlanT plan = test::samplePlan();
  plan.operators[0]->name = "aten::from_file";
  for (Trust trust : {Trust::stranger, Trust::own})
    expectRefused([&] { verifyOperators(plan, trust); }, "'aten::from_file'");
  expectRefused([&] { serializePlan(plan); }, "'aten::from_file'");
}

/// A program of one call, whose operands lie nowhere in particular.
class OneCall {
public:
  explicit OneCall(const char *name) : name(name) {}

  OneCall &tensor(std::vector<int64_t> shape, DType dtype = DType::f32,
                  std::vector<int64_t> strides = {}) {
    program.values.push_back(std::make_unique<ValueT>());
    program.values.back()->dtype = dtype;
    program.values.back()->shape = std::move(shape);
    program.values.back()->strides = std::move(strides);
    ArgT &arg = add(ArgKind::tensor);
    arg.values = {static_cast<int32_t>(program.values.size() - 1)};
    return *this;
  }
  /// A list of them, none where there is no dim.
  OneCall &tensors(const std::vector<std::vector<int64_t>> &shapes,
                   DType dtype) {
    std::vector<int32_t> list;
    for (const std::vector<int64_t> &shape : shapes) {
      if (shape.empty()) {
        list.push_back(-1);
        continue;
      }
      program.values.push_back(std::make_unique<ValueT>());
      program.values.back()->dtype = dtype;
      program.values.back()->shape = shape;
      list.push_back(static_cast<int32_t>(program.values.size() - 1));
    }
    add(ArgKind::optional_tensors).values = list;
    return *this;
  }
  OneCall &integers(std::vector<int64_t> list) {
    add(ArgKind::integers).ints = std::move(list);
    return *this;
  }
  OneCall &integer(int64_t value) {
    add(ArgKind::integer).ints = {value};
    return *this;
  }
  OneCall &none() {
    add(ArgKind::none);
    return *this;
  }

  std::string problem() const {
    return describeOperandProblem(name, CallOperands(program, call));
  }
  std::vector<IndexOperand> checkedIndices() const {
    return checkedIndexOperands(name, CallOperands(program, call));
  }
  std::vector<IndexOperand> indices() const {
    return indexOperands(name, CallOperands(program, call));
  }

private:
  ArgT &add(ArgKind kind) {
    call.args.push_back(std::make_unique<ArgT>());
    call.args.back()->kind = kind;
    return *call.args.back();
  }

  std::string name;
  ProgramT program;
  CallT call;
};

TEST(Operators, ShapesThatAKernelTrustsAreCompared) {
  auto norm = [](std::vector<int64_t> gradient, std::vector<int64_t> mean) {
    return OneCall("aten::native_layer_norm_backward")
        .tensor(std::move(gradient))
        .tensor({4, 3, 8})
        .integers({8})
        .tensor(std::move(mean))
        .tensor({4, 3, 1})
        .tensor({8})
        .none()
        .problem();
  };
  EXPECT_EQ(norm({4, 3, 8}, {4, 3, 1}), "");
  EXPECT_THAT(norm({4, 3, 7}, {4, 3, 1}), HasSubstr("[4, 3, 8]"));
  EXPECT_THAT(norm({4, 3, 8}, {4, 1, 1}), HasSubstr("moment"));
}

TEST(Operators, IndicesThatAKernelTrustsHaveARange) {
  auto pool = [](std::vector<int64_t> indices,
                 std::vector<int64_t> strides = {}) {
    return OneCall("aten::max_pool2d_with_indices_backward")
        .tensor({2, 3, 4, 4})
        .tensor({2, 3, 8, 6})
        .integers({2, 2})
        .integers({2, 2})
        .integers({0, 0})
        .integers({1, 1})
        .integer(0)
        .tensor(std::move(indices), DType::i64, std::move(strides));
  };
  OneCall fits = pool({2, 3, 4, 4});
  EXPECT_EQ(fits.problem(), "");
  ASSERT_EQ(fits.indices().size(), 1u);
  EXPECT_EQ(fits.indices()[0].argument, 7u);
  EXPECT_EQ(fits.indices()[0].greatest, 47);
  EXPECT_NE(pool({2, 3, 4, 3}).problem(), "");
  // Channels last is a layout without gaps, a broadcast is none.
  EXPECT_EQ(pool({2, 3, 4, 4}, {48, 1, 12, 3}).problem(), "");
  EXPECT_NE(pool({2, 3, 4, 4}, {0, 0, 0, 0}).problem(), "");
}

TEST(Operators, IndicesThatAKernelChecksHaveARange) {
  auto single = [](const OneCall &call) {
    std::vector<IndexOperand> found = call.checkedIndices();
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? IndexOperand{} : found[0];
  };
  IndexOperand row = single(
      OneCall("aten::embedding").tensor({10, 4}).tensor({2, 3}, DType::i64));
  EXPECT_EQ(row.argument, 1u);
  EXPECT_EQ(row.least, 0);
  EXPECT_EQ(row.greatest, 9);
  IndexOperand place = single(OneCall("aten::gather")
                                  .tensor({5, 7})
                                  .integer(-1)
                                  .tensor({5, 2}, DType::i64));
  EXPECT_EQ(place.argument, 2u);
  EXPECT_EQ(place.greatest, 6);
  IndexOperand target = single(OneCall("aten::nll_loss_forward")
                                   .tensor({6, 3})
                                   .tensor({6}, DType::i64)
                                   .none()
                                   .integer(1)
                                   .integer(-100));
  EXPECT_EQ(target.greatest, 2);
  EXPECT_EQ(target.other, -100);
  IndexOperand gradient = single(OneCall("aten::embedding_dense_backward")
                                     .tensor({2, 3, 4})
                                     .tensor({2, 3}, DType::i64)
                                     .integer(10));
  EXPECT_EQ(gradient.greatest, 9);
  // Of a list, the one for each dim.
  std::vector<IndexOperand> each = OneCall("aten::index.Tensor")
                                       .tensor({5, 7})
                                       .tensors({{}, {3}}, DType::i64)
                                       .checkedIndices();
  ASSERT_EQ(each.size(), 1u);
  EXPECT_EQ(each[0].element, 1u);
  EXPECT_EQ(each[0].least, -7);
  EXPECT_EQ(each[0].greatest, 6);
  EXPECT_TRUE(OneCall("aten::index.Tensor")
                  .tensor({5, 7})
                  .tensors({{5}}, DType::bool_)
                  .checkedIndices()
                  .empty());
  EXPECT_TRUE(OneCall("aten::add.Tensor")
                  .tensor({5})
                  .tensor({5})
                  .checkedIndices()
                  .empty());
}

TEST(Operators, FewerDimsThanAKernelPoolsAreRefused) {
  for (size_t dims : {0, 1})
    EXPECT_THAT(OneCall("aten::avg_pool2d_backward")
                    .tensor(std::vector<int64_t>(dims, 4))
                    .tensor(std::vector<int64_t>(dims, 4))
                    .problem(),
                HasSubstr("as many dims as it pools"));
}

TEST(Operators, MediansOfOneRepeatedElementAreRefused) {
  auto median = [](std::vector<int64_t> strides, int64_t dim) {
    return OneCall("aten::median.dim")
        .tensor({5, 4}, DType::f32, std::move(strides))
        .integer(dim)
        .integer(0)
        .problem();
  };
  EXPECT_EQ(median({}, 1), "");
  EXPECT_EQ(median({1, 5}, 0), "");
  EXPECT_EQ(median({1, 0}, 0), "");
  for (int64_t dim : {1, -1})
    EXPECT_THAT(median({1, 0}, dim), HasSubstr("clone"));
}

TEST(Operators, KernelsWithoutARuleNeedTrust) {
  PlanT plan = test::samplePlan();
  verifyOperators(plan, Trust::stranger);
  plan.operators[1]->name = "aten::_segment_reduce_backward";
  plan.operators[1]->overload = "";
  verifyOperators(plan, Trust::own);
  expectRefused([&] { verifyOperators(plan, Trust::stranger); }, "--trust");
  std::string bytes = serializePlan(plan);
  PlanFile::fromBytes(bytes, "step.fsdp", Trust::own);
  expectRefused([&] { PlanFile::fromBytes(bytes, "step.fsdp"); },
                "aten::_segment_reduce_backward of fc (model.py:7)");
}

} // namespace
