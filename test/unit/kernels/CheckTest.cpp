//===- CheckTest.cpp - Programs that were made to do harm -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/Interpreter.h"
#include "plan/Kernels.h"
#include "test/unit/kernels/Programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

using namespace fsdp;
using plan::DType;
using testing::HasSubstr;

namespace {

/// y = x + 1 over two rows of eight columns, and their sum over rows.
ProgramBuilder sound() {
  ProgramBuilder builder({2});
  uint32_t x = builder.load(DType::f32, 8);
  uint32_t one = builder.op(KernelOpKind::constant, {}, {}, 1);
  uint32_t y = builder.op(KernelOpKind::add, {x, one});
  builder.store(DType::bf16, y);
  builder.storeSum(y);
  return builder;
}

struct Wrong {
  const char *name;
  const char *said;
  std::function<void(plan::KernelProgramT &)> make;
};

void add(plan::KernelProgramT &program, KernelOpKind kind,
         std::vector<uint32_t> args, std::vector<int64_t> integers = {}) {
  auto op = std::make_unique<plan::KernelOpT>();
  op->kind = uint8_t(kind);
  op->args = std::move(args);
  op->integers = std::move(integers);
  program.ops.push_back(std::move(op));
}

// Operations of `sound`: 0 load, 1 constant, 2 add, 3 sum_rows. Operands: 0 x,
// 1 y, 2 the sum.
const Wrong kWrong[] = {
    {"Operations", "more operations",
     [](auto &program) {
       while (program.ops.size() <= kMaxKernelOps)
         add(program, KernelOpKind::constant, {});
     }},
    {"Operands", "more operations or operands",
     [](auto &program) {
       while (program.operands.size() <= kMaxKernelOperands)
         program.operands.push_back(
             std::make_unique<plan::KernelOperandT>(*program.operands[0]));
     }},
    {"EightBitsRead", "elements in operand 0 that kernels do not know",
     [](auto &program) { program.operands[0]->dtype = DType::f8e5m2; }},
    {"EightBitsSummed", "writes a sum over rows in eight bits to operand 2",
     [](auto &program) { program.operands[2]->dtype = DType::f8e4m3fn; }},
    {"NegativeRows", "rows of no valid number",
     [](auto &program) { program.rows[0] = -1; }},
    {"ManyRows", "rows of no valid number",
     [](auto &program) {
       program.rows[0] = std::numeric_limits<int64_t>::max();
     }},
    {"Dtype", "elements in operand 0 that kernels do not know",
     [](auto &program) { program.operands[0]->dtype = DType::f64; }},
    {"UnknownDtype", "elements in operand 0 that kernels do not know",
     [](auto &program) { program.operands[0]->dtype = DType(250); }},
    {"Strides", "one stride for each dim of rows in operand 0",
     [](auto &program) { program.operands[0]->row_strides.push_back(1); }},
    {"NoColumns", "columns of no valid number in operand 0",
     [](auto &program) { program.operands[0]->columns = 0; }},
    {"ManyColumns", "columns of no valid number in operand 0",
     [](auto &program) {
       program.operands[0]->columns = std::numeric_limits<uint64_t>::max();
     }},
    {"NegativeStride", "no valid extent in operand 0",
     [](auto &program) { program.operands[0]->row_strides[0] = -8; }},
    {"NegativeColumnStride", "no valid extent in operand 0",
     [](auto &program) { program.operands[0]->column_stride = -1; }},
    {"LongStride", "no valid extent in operand 0",
     [](auto &program) {
       program.operands[0]->row_strides[0] =
           std::numeric_limits<int64_t>::max();
     }},
    {"UnknownOperation", "unknown operation 2",
     [](auto &program) {
       program.ops[2]->kind = uint8_t(getKernelOps().size());
     }},
    {"FewArguments", "number of arguments in operation 2",
     [](auto &program) { program.ops[2]->args.pop_back(); }},
    {"NoArguments", "number of arguments in operation 4",
     [](auto &program) { add(program, KernelOpKind::cat, {}); }},
    {"Integers", "number of arguments in operation 2",
     [](auto &program) { program.ops[2]->integers.push_back(1); }},
    {"Itself", "uses what is not there yet in operation 2",
     [](auto &program) { program.ops[2]->args[0] = 2; }},
    {"Later", "uses what is not there yet in operation 2",
     [](auto &program) { program.ops[2]->args[0] = 4'000'000'000; }},
    {"SumOverRows", "uses a sum over rows in operation 4",
     [](auto &program) { add(program, KernelOpKind::neg, {3}); }},
    {"Types", "argument of another type in operation 4",
     [](auto &program) { add(program, KernelOpKind::logical_not, {2}); }},
    {"MixedTypes", "argument of another type in operation 5",
     [](auto &program) {
       add(program, KernelOpKind::integer, {}, {1});
       add(program, KernelOpKind::cat, {2, 4});
     }},
    {"Columns", "arguments of different columns in operation 5",
     [](auto &program) {
       add(program, KernelOpKind::slice, {2}, {0, 4});
       add(program, KernelOpKind::mul, {2, 4});
     }},
    {"EndlessCat", "columns of no valid number",
     [](auto &program) {
       for (uint32_t i = 0; i < 64; ++i)
         add(program, KernelOpKind::cat, {i ? 3 + i : 2, i ? 3 + i : 2});
     }},
    {"LoadsNothing", "reads what is no operand to read in operation 0",
     [](auto &program) { program.ops[0]->integers[0] = 3; }},
    {"LoadsBefore", "reads what is no operand to read in operation 0",
     [](auto &program) { program.ops[0]->integers[0] = -1; }},
    {"LoadsWhatIsWritten", "reads what is no operand to read in operation 0",
     [](auto &program) { program.ops[0]->integers[0] = 1; }},
    {"NoColumn", "columns of no valid number in operation 4",
     [](auto &program) { add(program, KernelOpKind::column, {}, {0}); }},
    {"RepeatsColumns", "columns of no valid number in operation 4",
     [](auto &program) { add(program, KernelOpKind::repeat, {2}, {8}); }},
    {"SliceBefore", "takes columns that are not there in operation 4",
     [](auto &program) { add(program, KernelOpKind::slice, {2}, {-1, 4}); }},
    {"SliceBehind", "takes columns that are not there in operation 4",
     [](auto &program) { add(program, KernelOpKind::slice, {2}, {5, 4}); }},
    {"SliceOfNone", "takes columns that are not there in operation 4",
     [](auto &program) { add(program, KernelOpKind::slice, {2}, {5, 0}); }},
    {"SliceAround", "takes columns that are not there in operation 4",
     [](auto &program) {
       add(program, KernelOpKind::slice, {2},
           {std::numeric_limits<int64_t>::max(), 2});
     }},
    {"WritesNothing", "writes what no operation gives to operand 1",
     [](auto &program) { program.operands[1]->written = 4; }},
    {"WritesBefore", "writes what no operation gives to operand 1",
     [](auto &program) { program.operands[1]->written = -2; }},
    {"WrittenType", "another type or size to operand 1",
     [](auto &program) { program.operands[1]->dtype = DType::i32; }},
    {"WrittenColumns", "another type or size to operand 1",
     [](auto &program) { program.operands[1]->columns = 7; }},
    {"WrittenTwice", "writes elements twice in operand 1",
     [](auto &program) { program.operands[1]->row_strides[0] = 7; }},
    {"WrittenOverAll", "writes elements twice in operand 1",
     [](auto &program) { program.operands[1]->row_strides[0] = 0; }},
    {"SpreadSum", "spreads a sum over rows in operand 2",
     [](auto &program) { program.operands[2]->row_strides[0] = 8; }},
    {"WideSum", "spreads a sum over rows in operand 2",
     [](auto &program) { program.operands[2]->column_stride = 2; }},
};

class KernelCheck : public testing::TestWithParam<Wrong> {};

} // namespace

TEST(KernelCheck, SoundProgram) {
  EXPECT_EQ(checkKernel(sound().program), std::nullopt);
}

TEST_P(KernelCheck, Refuses) {
  plan::KernelProgramT program = std::move(sound().program);
  GetParam().make(program);
  std::optional<std::string> problem = checkKernel(program);
  ASSERT_NE(problem, std::nullopt);
  EXPECT_THAT(*problem, HasSubstr(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(Rules, KernelCheck, testing::ValuesIn(kWrong),
                         [](const auto &info) { return info.param.name; });

TEST(KernelCheck, WhatMayLieOverWhat) {
  ProgramBuilder builder({4});
  uint32_t x = builder.load(DType::bf16, 8);           // operand 0
  uint32_t moved = builder.load(DType::bf16, 8);       // 1
  uint32_t one = builder.load(DType::bf16, 1, {0}, 1); // 2
  uint32_t sliced = builder.op(KernelOpKind::slice, {moved}, {0, 4});
  uint32_t twice = builder.op(KernelOpKind::cat, {sliced, sliced});
  uint32_t sum = builder.op(KernelOpKind::add, {x, twice});
  builder.store(DType::bf16, builder.op(KernelOpKind::add, {sum, one})); // 3
  builder.store(DType::f32, sum);                                        // 4
  builder.storeSum(x);                                                   // 5
  const plan::KernelProgramT &program = builder.program;
  ASSERT_EQ(checkKernel(program), std::nullopt);
  EXPECT_TRUE(mayOverwrite(program, 3, 0));
  EXPECT_FALSE(mayOverwrite(program, 3, 1)); // read for other columns
  EXPECT_FALSE(mayOverwrite(program, 3, 2)); // read by all rows
  EXPECT_FALSE(mayOverwrite(program, 4, 0)); // of another size
  EXPECT_FALSE(mayOverwrite(program, 5, 0));
  EXPECT_FALSE(mayOverwrite(program, 0, 3));
}

TEST(KernelCheck, TheInterpreterKeepsWhatIsReadLater) {
  ProgramBuilder builder({2});
  uint32_t x = builder.load(DType::f32, 100);
  uint32_t kept = builder.op(KernelOpKind::neg, {x});
  uint32_t y = kept;
  for (int i = 0; i < 50; ++i)
    y = builder.op(KernelOpKind::mul, {y, y});
  builder.store(DType::f32, builder.op(KernelOpKind::add, {kept, y}));
  // `kept`, and two of the others at a time.
  EXPECT_EQ(interpretedBytes(builder.program), 3u * 100 * 8);
  // Of one row of as many columns as there may be, a piece.
  ProgramBuilder flat({});
  uint32_t z = flat.load(DType::f32, uint64_t{1} << 40);
  flat.store(DType::f32, flat.op(KernelOpKind::neg, {z}));
  EXPECT_EQ(interpretedBytes(flat.program), 2u * 4096 * 8);
}
