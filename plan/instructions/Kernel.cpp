//===- Kernel.cpp - Programs of kernels over values -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/DType.h"
#include "plan/Kernels.h"
#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

using namespace fsdp;
using plan::KernelOperandT;
using plan::KernelProgramT;

void fsdp::listOperands(const plan::KernelT &op, Operands &operands) {
  operands.add(Access::read, op.inputs);
  operands.add(Access::define, op.outputs);
}

/// Elements from a value's first to behind its last one; it was verified.
static uint64_t elementsOf(const plan::ValueT &value) {
  uint64_t element = dtypeBytes(value.dtype);
  return *checkedExtent(value.shape, value.strides, element) / element;
}

void fsdp::verify(const plan::KernelT &op, const ProgramCheck &check) {
  if (op.program >= check.plan.kernels.size())
    check.refuse("runs a kernel that does not exist");
  const KernelProgramT &program = *check.plan.kernels[op.program];
  size_t written = operandsOf(program, /*written=*/true).size();
  if (op.outputs.size() != written ||
      op.inputs.size() != program.operands.size() - written)
    check.refuse("has not one value for each operand of its kernel");
  auto input = op.inputs.begin(), output = op.outputs.begin();
  for (size_t i = 0; i < program.operands.size(); ++i) {
    bool isWritten = program.operands[i]->written != -1;
    uint32_t index = isWritten ? *output++ : *input++;
    const plan::ValueT &value = check.value(index);
    if (value.dtype != program.operands[i]->dtype ||
        fsdp::extentOf(program, i) > elementsOf(value))
      check.refuse("has no operand " + std::to_string(i) +
                   " of its kernel in " + check.name(index));
    if (isWritten && !check.isPlace(index))
      check.refuse("writes " + check.name(index) +
                   ", which has no room of its own");
  }
}

InstructionText fsdp::print(const plan::KernelT &op, const ProgramText &text) {
  return {text.definitions(op.outputs),
          "kernel " + text.plan.kernels[op.program]->name,
          " " + std::to_string(op.program) + "(" + text.uses(op.inputs) + ")"};
}
