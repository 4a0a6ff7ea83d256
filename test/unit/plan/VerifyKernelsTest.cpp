//===- VerifyKernelsTest.cpp - Programs of kernels, and who runs them -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Kernels.h"
#include "plan/Verify.h"

#include "test/unit/plan/KernelPlan.h"
#include "test/unit/plan/VerifyCase.h"

using namespace fsdp;
using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

KernelT &addSoundKernel(PlanT &plan) {
  KernelT &kernel = addKernel(plan);
  verifyPlan(plan);
  return kernel;
}

KernelProgramT &programOf(PlanT &plan) {
  addSoundKernel(plan);
  return *plan.kernels[0];
}

void addCode(PlanT &plan, uint32_t kernel) {
  auto code = std::make_unique<KernelCodeT>();
  code->kernel = kernel;
  code->target = "x86-64-v3";
  plan.kernel_code.push_back(std::move(code));
}

const Case kCases[] = {
    {"CodeOfNone",
     [](PlanT &p) {
       addSoundKernel(p);
       addCode(p, 1);
     },
     "is of kernel 1, which does not exist"},
    {"CodeTwice",
     [](PlanT &p) {
       addSoundKernel(p);
       addCode(p, 0);
       verifyPlan(p);
       addCode(p, 0);
     },
     "has code for that already"},
    {"Missing", [](PlanT &p) { addSoundKernel(p).program = 1; },
     "runs a kernel that does not exist"},
    {"FewInputs", [](PlanT &p) { addSoundKernel(p).inputs.clear(); },
     "has not one value for each operand"},
    {"FewOutputs", [](PlanT &p) { addSoundKernel(p).outputs.pop_back(); },
     "has not one value for each operand"},
    {"Small",
     [](PlanT &p) {
       KernelT &kernel = addSoundKernel(p);
       p.programs[0]->values[kernel.outputs[0]]->shape = {5, 4};
     },
     "has no operand 1 of its kernel"},
    {"Type",
     [](PlanT &p) {
       KernelT &kernel = addSoundKernel(p);
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
