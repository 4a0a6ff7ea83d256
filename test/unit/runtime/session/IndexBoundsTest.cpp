//===- IndexBoundsTest.cpp - Which inputs are places in tables ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/IndexBounds.h"

#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

using namespace fsdp;
using namespace fsdp::plan;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

namespace {

/// A program of one input, "ids", of two rows of four.
class IndexBoundsTest : public ::testing::Test {
protected:
  void SetUp() override {
    plan.inputs.push_back(std::make_unique<InputT>());
    plan.inputs[0]->name = "ids";
    plan.inputs[0]->shape = {2, 4};
    plan.locations = {"embed (model.py:5)"};
    plan.programs.push_back(std::make_unique<ProgramT>());
    use(DType::i64);
  }

  /// Begins again, with an input of that type.
  void use(DType dtype) {
    plan.inputs[0]->dtype = dtype;
    program().values.clear();
    program().arguments.clear();
    program().instructions.clear();
    auto binding = std::make_unique<BindingT>();
    binding->value = value({2, 4}, dtype);
    binding->input = 0;
    program().arguments.push_back(std::move(binding));
  }

  ProgramT &program() { return *plan.programs[0]; }

  uint32_t value(std::vector<int64_t> shape, DType dtype = DType::i64) {
    program().values.push_back(std::make_unique<ValueT>());
    program().values.back()->dtype = dtype;
    program().values.back()->shape = std::move(shape);
    return static_cast<uint32_t>(program().values.size() - 1);
  }

  static std::unique_ptr<ArgT> tensor(uint32_t value) {
    auto arg = std::make_unique<ArgT>();
    arg->kind = ArgKind::tensor;
    arg->values = {static_cast<int32_t>(value)};
    return arg;
  }
  static std::unique_ptr<ArgT> number(int64_t number) {
    auto arg = std::make_unique<ArgT>();
    arg->kind = ArgKind::integer;
    arg->ints = {number};
    return arg;
  }
  static std::unique_ptr<ArgT> numbers(std::vector<int64_t> numbers) {
    auto arg = std::make_unique<ArgT>();
    arg->kind = ArgKind::integers;
    arg->ints = std::move(numbers);
    return arg;
  }
  static std::unique_ptr<ArgT> none() { return std::make_unique<ArgT>(); }

  template <typename Body>
  void add(Body body) {
    auto instruction = std::make_unique<InstructionT>();
    instruction->at = 0;
    instruction->body.Set(std::move(body));
    program().instructions.push_back(std::move(instruction));
  }

  template <typename... Args>
  uint32_t call(const std::string &name, uint32_t result, Args... args) {
    auto op = std::make_unique<OperatorT>();
    op->name = "aten::" + name;
    plan.operators.push_back(std::move(op));
    CallT call;
    call.op = static_cast<uint32_t>(plan.operators.size() - 1);
    (call.args.push_back(std::move(args)), ...);
    call.results = {static_cast<int32_t>(result)};
    add(std::move(call));
    return result;
  }

  void lookUp(uint32_t indices, int64_t rows = 10) {
    call("embedding", value({1}, DType::f32),
         tensor(value({rows, 3}, DType::f32)), tensor(indices));
  }

  std::vector<IndexBound> find() {
    return IndexBounds(plan, 0).of(*plan.inputs[0]);
  }

  PlanT plan;
};

TEST_F(IndexBoundsTest, AnEmbeddingTakesItsRows) {
  lookUp(0);
  lookUp(0); // no other bound
  std::vector<IndexBound> bounds = find();
  ASSERT_THAT(bounds, SizeIs(1));
  EXPECT_EQ(bounds[0].least, 0);
  EXPECT_EQ(bounds[0].greatest, 9);
  EXPECT_EQ(bounds[0].other, std::nullopt);
  EXPECT_EQ(bounds[0].reader, "aten::embedding of embed (model.py:5)");
  EXPECT_THAT(bounds[0].runs, ElementsAre(Pair(0, 8)));
}

TEST_F(IndexBoundsTest, OfShiftedLabelsTheFirstOfARowIsFree) {
  uint32_t padded = call("constant_pad_nd", value({2, 5}), tensor(0),
                         numbers({0, 1}), number(-100));
  uint32_t part = call("slice", value({2, 4}), tensor(padded), number(1),
                       number(1), number(9), number(1));
  uint32_t copied = call("clone", value({2, 4}), tensor(part));
  uint32_t flat = call("view", value({8}), tensor(copied), numbers({8}));
  call("nll_loss_forward", value({}, DType::f32),
       tensor(value({8, 6}, DType::f32)), tensor(flat), none(), number(1),
       number(-100));
  std::vector<IndexBound> bounds = find();
  ASSERT_THAT(bounds, SizeIs(1));
  EXPECT_EQ(bounds[0].greatest, 5);
  EXPECT_EQ(bounds[0].other, -100);
  EXPECT_THAT(bounds[0].runs, ElementsAre(Pair(1, 3), Pair(5, 3)));
}

TEST_F(IndexBoundsTest, FollowsCastsAndPermutations) {
  use(DType::i32);
  uint32_t wide = call("_to_copy", value({2, 4}), tensor(0));
  uint32_t turned = call("t", value({4, 2}), tensor(wide));
  uint32_t column =
      call("select", value({2}), tensor(turned), number(0), number(-1));
  lookUp(call("unsqueeze", value({2, 1}), tensor(column), number(1)));
  std::vector<IndexBound> bounds = find();
  ASSERT_THAT(bounds, SizeIs(1));
  EXPECT_THAT(bounds[0].runs, ElementsAre(Pair(3, 1), Pair(7, 1)));
}

TEST_F(IndexBoundsTest, WhatIsComputedIsNotKnown) {
  lookUp(call("clamp", value({2, 4}), tensor(0), number(0), number(9)));
  lookUp(call("sub", value({2, 4}), tensor(0), tensor(value({2, 4}))));
  // A mask: places of no row may be what is masked.
  lookUp(call("where", value({2, 4}), tensor(value({2, 4}, DType::bool_)),
              tensor(0), tensor(value({2, 4}))));
  // As another type a number may be another one.
  uint32_t rounded = call("_to_copy", value({2, 4}, DType::f32), tensor(0));
  lookUp(call("_to_copy", value({2, 4}), tensor(rounded)));
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(IndexBoundsTest, RanksHavePartsOfATable) {
  plan.groups.push_back(std::make_unique<GroupT>());
  plan.groups[0]->size = 3;
  SelectRowsT rows;
  rows.input = value({3});
  rows.output = value({1});
  rows.starts = {0, 1, 2};
  uint32_t first = rows.output;
  add(std::move(rows));
  uint32_t own = call("sub", value({2, 4}), tensor(0), tensor(first));
  lookUp(call("where", value({2, 4}), tensor(value({2, 4}, DType::bool_)),
              tensor(own), tensor(value({}))));
  std::vector<IndexBound> bounds = find();
  ASSERT_THAT(bounds, SizeIs(1));
  EXPECT_EQ(bounds[0].greatest, 29);
}

TEST_F(IndexBoundsTest, ARankMayReadPartsOfEachRow) {
  plan.groups.push_back(std::make_unique<GroupT>());
  plan.groups[0]->size = 2;
  SelectRowsT rows;
  rows.input = 0;
  rows.output = value({2, 2});
  rows.dim = 1;
  rows.starts = {2, 0};
  uint32_t part = rows.output;
  add(std::move(rows));
  lookUp(part);
  std::vector<IndexBound> bounds = find();
  ASSERT_THAT(bounds, SizeIs(1));
  EXPECT_THAT(bounds[0].runs, ElementsAre(Pair(2, 2), Pair(6, 2)));
}

TEST_F(IndexBoundsTest, AnIndexMayCountFromTheEnd) {
  auto indices = std::make_unique<ArgT>();
  indices->kind = ArgKind::optional_tensors;
  indices->values = {-1, 0};
  call("index", value({5, 2, 4}, DType::f32), tensor(value({5, 7}, DType::f32)),
       std::move(indices));
  std::vector<IndexBound> bounds = find();
  ASSERT_THAT(bounds, SizeIs(1));
  EXPECT_EQ(bounds[0].least, -7);
  EXPECT_EQ(bounds[0].greatest, 6);
}

TEST_F(IndexBoundsTest, NamesInputRowValueAndBound) {
  for (DType dtype : {DType::i64, DType::i32}) {
    use(dtype);
    lookUp(0);
    IndexBounds bounds(plan, 0);
    std::vector<int64_t> wide = {0, 1, 2, 3, 4, 9, 5000, 0};
    std::vector<int32_t> narrow(wide.begin(), wide.end());
    auto bytes = dtype == DType::i64 ? std::as_bytes(std::span(wide))
                                     : std::as_bytes(std::span(narrow));
    try {
      bounds.check(*plan.inputs[0], bytes,
                   [](uint64_t row) { return "row " + std::to_string(row); });
      FAIL() << "5000 was taken";
    } catch (const Error &error) {
      EXPECT_EQ(error.id(), ErrorId::DataOutOfRange);
      EXPECT_THAT(error.what(),
                  ::testing::StartsWith("'ids', row 1: 5000 of 10: "
                                        "aten::embedding of embed "
                                        "(model.py:5) takes 0 to 9; "));
    }
    wide[6] = narrow[6] = 0;
    EXPECT_NO_THROW(bounds.check(*plan.inputs[0], bytes,
                                 [](uint64_t) { return std::string(); }));
  }
}

} // namespace
