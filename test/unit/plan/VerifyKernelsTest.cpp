//===- VerifyKernelsTest.cpp - Programs of kernels, and who runs them -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Kernels.h"
#include "plan/Verify.h"

#include "test/unit/plan/VerifyCase.h"

using namespace fsdp;
using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

std::unique_ptr<KernelOpT> makeOp(KernelOpKind kind, std::vector<uint32_t> args,
                                  std::vector<int64_t> integers = {}) {
  auto op = std::make_unique<KernelOpT>();
  op->kind = static_cast<uint8_t>(kind);
  op->args = std::move(args);
  op->integers = std::move(integers);
  return op;
}

std::unique_ptr<KernelOperandT> makeOperand(std::vector<int64_t> strides,
                                            uint64_t columns, int32_t written) {
  auto operand = std::make_unique<KernelOperandT>();
  operand->row_strides = std::move(strides);
  operand->columns = columns;
  operand->written = written;
  return operand;
}

/// y = x + sum(x), row by row, and the sum of y over rows.
KernelProgramT makeProgram() {
  KernelProgramT program;
  program.name = "sum+add";
  program.rows = {2, 3};
  program.operands.push_back(makeOperand({12, 4}, 4, -1));
  program.operands.push_back(makeOperand({12, 4}, 4, 2));
  program.operands.push_back(makeOperand({0, 0}, 4, 3));
  program.ops.push_back(makeOp(KernelOpKind::load, {}, {0}));
  program.ops.push_back(makeOp(KernelOpKind::sum_columns, {0}));
  program.ops.push_back(makeOp(KernelOpKind::add, {0, 1}));
  program.ops.push_back(makeOp(KernelOpKind::sum_rows, {2}));
  return program;
}

/// Runs it in front of the first program, over a state of 24 elements.
KernelT &addKernel(PlanT &plan) {
  ProgramT &program = *plan.programs[0];
  auto add = [&](std::vector<int64_t> shape, uint64_t bytes) {
    auto value = std::make_unique<ValueT>();
    value->shape = std::move(shape);
    value->offset = plan.memory->peak;
    value->bytes = bytes;
    plan.memory->peak += 128;
    program.values.push_back(std::move(value));
    return static_cast<uint32_t>(program.values.size()) - 1;
  };
  auto state = std::make_unique<StateT>();
  state->name = "x";
  state->role = Role::buffer;
  state->shape = {6, 4};
  state->bytes = 96;
  state->offset = plan.memory->peak;
  KernelT kernel;
  kernel.inputs = {add({6, 4}, 96)};
  kernel.outputs = {add({6, 4}, 96), add({4}, 16)};
  ValueT &x = *program.values[kernel.inputs[0]];
  x.place = Place::state;
  x.state = static_cast<uint32_t>(plan.states.size());
  auto binding = std::make_unique<BindingT>();
  binding->value = kernel.inputs[0];
  binding->state = static_cast<int32_t>(x.state);
  program.arguments.push_back(std::move(binding));
  plan.states.push_back(std::move(state));
  plan.kernels.push_back(std::make_unique<KernelProgramT>(makeProgram()));
  insert(plan, 0, std::move(kernel));
  verifyPlan(plan);
  return body<KernelT>(plan);
}

KernelProgramT &programOf(PlanT &plan) {
  addKernel(plan);
  return *plan.kernels[0];
}

const Case kCases[] = {
    {"Missing", [](PlanT &p) { addKernel(p).program = 1; },
     "runs a kernel that does not exist"},
    {"FewInputs", [](PlanT &p) { addKernel(p).inputs.clear(); },
     "has not one value for each operand"},
    {"FewOutputs", [](PlanT &p) { addKernel(p).outputs.pop_back(); },
     "has not one value for each operand"},
    {"Small",
     [](PlanT &p) {
       KernelT &kernel = addKernel(p);
       p.programs[0]->values[kernel.outputs[0]]->shape = {5, 4};
     },
     "has no operand 1 of its kernel"},
    {"Type",
     [](PlanT &p) {
       KernelT &kernel = addKernel(p);
       p.programs[0]->values[kernel.outputs[1]]->dtype = DType::i32;
     },
     "has no operand 2 of its kernel"},
    {"Program", [](PlanT &p) { programOf(p).ops[2]->args = {0, 2}; },
     "kernel 0 uses what is not there yet in operation 2"},
    {"Kind", [](PlanT &p) { programOf(p).ops[2]->kind = 250; },
     "has an unknown operation 2"},
    {"Arguments", [](PlanT &p) { programOf(p).ops[2]->args = {0}; },
     "has another number of arguments in operation 2"},
    {"RowSum",
     [](PlanT &p) {
       programOf(p).ops.push_back(makeOp(KernelOpKind::neg, {3}));
     },
     "uses a sum over rows in operation 4"},
    {"Load", [](PlanT &p) { programOf(p).ops[0]->integers = {1}; },
     "reads what is no operand to read in operation 0"},
    {"Columns", [](PlanT &p) { programOf(p).operands[1]->columns = 3; },
     "writes what is of another type or size to operand 1"},
    {"Strides", [](PlanT &p) { programOf(p).operands[0]->row_strides = {12}; },
     "has not one stride for each dim of rows in operand 0"},
    {"Negative",
     [](PlanT &p) { programOf(p).operands[0]->row_strides = {12, -4}; },
     "has no valid extent in operand 0"},
    {"Twice", [](PlanT &p) { programOf(p).operands[1]->row_strides = {0, 4}; },
     "writes elements twice in operand 1"},
    {"SpreadSum",
     [](PlanT &p) { programOf(p).operands[2]->row_strides = {0, 4}; },
     "spreads a sum over rows in operand 2"},
    {"ElementType",
     [](PlanT &p) { programOf(p).operands[0]->dtype = DType::f64; },
     "has elements in operand 0 that kernels do not know"},
    {"Slice",
     [](PlanT &p) {
       programOf(p).ops.push_back(makeOp(KernelOpKind::slice, {0}, {2, 3}));
     },
     "takes columns that are not there in operation 4"},
    {"Written", [](PlanT &p) { programOf(p).operands[1]->written = 9; },
     "writes what no operation gives to operand 1"},
    {"Rows", [](PlanT &p) { programOf(p).rows = {2, -3}; },
     "has rows of no valid number"},
};

INSTANTIATE_TEST_SUITE_P(Kernels, VerifyRule, testing::ValuesIn(kCases),
                         nameOf);

TEST(KernelFacts, InPlaceWhereEachElementIsReadForItself) {
  KernelProgramT program = makeProgram();
  ASSERT_EQ(checkKernel(program), std::nullopt);
  // A row's sum is there before its first element is written.
  EXPECT_TRUE(mayOverwrite(program, 1, 0));
  EXPECT_FALSE(mayOverwrite(program, 2, 0)); // takes a sum over rows
  program.operands[0]->row_strides = {4, 8};
  EXPECT_FALSE(mayOverwrite(program, 1, 0)); // another order
  program = makeProgram();
  // Rotated columns are read behind those that were written.
  program.ops.insert(program.ops.begin() + 1,
                     makeOp(KernelOpKind::slice, {0}, {2, 2}));
  program.ops.insert(program.ops.begin() + 2,
                     makeOp(KernelOpKind::slice, {0}, {0, 2}));
  program.ops.insert(program.ops.begin() + 3,
                     makeOp(KernelOpKind::cat, {1, 2}));
  program.ops.resize(4);
  program.operands.resize(2);
  program.operands[1]->written = 3;
  ASSERT_EQ(checkKernel(program), std::nullopt);
  EXPECT_FALSE(mayOverwrite(program, 1, 0));
}

TEST(KernelFacts, FlatIfColumnsDependOnThemselvesAlone) {
  KernelProgramT program = makeProgram();
  EXPECT_FALSE(isFlat(program));
  program.rows = {};
  program.operands.resize(2);
  for (auto &operand : program.operands)
    operand->row_strides.clear();
  program.ops.resize(3);
  ASSERT_EQ(checkKernel(program), std::nullopt);
  EXPECT_FALSE(isFlat(program)); // a sum of all
  program.ops[1] = makeOp(KernelOpKind::neg, {0});
  ASSERT_EQ(checkKernel(program), std::nullopt);
  EXPECT_TRUE(isFlat(program));
  // What all columns share may be read, and not written: pieces would race.
  program.operands.push_back(makeOperand({}, 1, 3));
  program.ops.push_back(makeOp(KernelOpKind::integer, {}, {7}));
  program.operands[2]->dtype = DType::i64;
  ASSERT_EQ(checkKernel(program), std::nullopt);
  EXPECT_FALSE(isFlat(program));
}

} // namespace
