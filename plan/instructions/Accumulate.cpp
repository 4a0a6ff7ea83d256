//===- Accumulate.cpp - A running sum of gradients ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

#include "plan/DType.h"

using namespace fsdp;
using plan::ValueT;

void fsdp::listOperands(const plan::AccumulateT &op, Operands &operands) {
  operands.add(Access::read, op.gradient);
  operands.add(Access::read, op.into);
  operands.add(Access::overwrite, op.output);
}

void fsdp::verify(const plan::AccumulateT &op, const ProgramCheck &check) {
  const ValueT &gradient = check.contiguous(op.gradient);
  const ValueT &into = check.contiguous(op.into);
  const ValueT &output = check.value(op.output);
  if (!isFloat(gradient.dtype) || !isFloat(into.dtype) ||
      gradient.shape != into.shape)
    check.refuse("adds " + check.name(op.gradient) + " to " +
                 check.name(op.into) +
                 ", which has another shape or is no number");
  check.sameType(op.into, op.output);
  // In place of one of the two.
  size_t base = check.root(op.output);
  uint32_t place = base == check.root(op.into) ? op.into : op.gradient;
  if (output.place != plan::Place::view || base != check.root(place) ||
      !output.strides.empty())
    check.refuse("leaves the sum at " + check.name(op.output) +
                 ", which is no view of what is summed");
  check.sameType(place, op.output);
  if (op.divisor < 1)
    check.refuse("divides a sum by 0");
}

InstructionText fsdp::print(const plan::AccumulateT &op,
                            const ProgramText &text) {
  return {text.definition(op.output), "accumulate",
          " " + text.use(op.gradient) + " into " + text.use(op.into) +
              (op.divisor == 1 ? "" : " divide " + std::to_string(op.divisor))};
}
