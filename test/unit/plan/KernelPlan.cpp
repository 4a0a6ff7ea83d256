//===- KernelPlan.cpp - A plan that runs a kernel -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/plan/KernelPlan.h"

using namespace fsdp;
using namespace fsdp::plan;

std::unique_ptr<KernelOpT> test::makeOp(KernelOpKind kind,
                                        std::vector<uint32_t> args,
                                        std::vector<int64_t> integers) {
  auto op = std::make_unique<KernelOpT>();
  op->kind = static_cast<uint8_t>(kind);
  op->args = std::move(args);
  op->integers = std::move(integers);
  return op;
}

std::unique_ptr<KernelOperandT> test::makeOperand(std::vector<int64_t> strides,
                                                  uint64_t columns,
                                                  int32_t written) {
  auto operand = std::make_unique<KernelOperandT>();
  operand->row_strides = std::move(strides);
  operand->columns = columns;
  operand->written = written;
  return operand;
}

KernelProgramT test::makeProgram() {
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

KernelT &test::addKernel(PlanT &plan) {
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
  auto instruction = std::make_unique<InstructionT>();
  instruction->body.Set(std::move(kernel));
  program.instructions.insert(program.instructions.begin(),
                              std::move(instruction));
  return *program.instructions[0]->body.AsKernel();
}
