//===- SumParts.cpp - Sums of what other ranks gave -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

#include "plan/DType.h"
#include "plan/Shape.h"

#include <cmath>

using namespace fsdp;

void fsdp::listOperands(const plan::SumPartsT &op, Operands &operands) {
  operands.add(Access::read, op.input);
  operands.add(Access::define, op.output);
}

void fsdp::verify(const plan::SumPartsT &op, const ProgramCheck &check) {
  const plan::ValueT &input = check.contiguous(op.input);
  const plan::ValueT &output = check.value(op.output);
  if (!check.isPlace(op.output) || !output.strides.empty())
    check.refuse("sums parts into " + check.name(op.output) +
                 ", which is no slot");
  if (output.dtype != plan::DType::f32 ||
      (input.dtype != output.dtype && !canWiden(input.dtype, output.dtype)))
    check.refuse("sums parts of " + std::string(dtypeName(input.dtype)) +
                 " to " + std::string(dtypeName(output.dtype)) +
                 ", expected f32 of it or of a narrower type");
  bool isCut =
      !input.shape.empty() && op.parts > 0 && input.shape[0] % op.parts == 0;
  std::vector<int64_t> part = input.shape;
  if (isCut)
    part[0] /= op.parts;
  if (!isCut || output.shape != part)
    check.refuse("expects " + check.name(op.input) + " to be " +
                 std::to_string(op.parts) + " parts like " +
                 check.name(op.output));
  for (double divisor : {op.pre, op.post})
    if (!std::isfinite(divisor) || divisor <= 0)
      check.refuse("divides by a number that is not finite and above zero");
}

InstructionText fsdp::print(const plan::SumPartsT &op,
                            const ProgramText &text) {
  std::string rest =
      " " + text.use(op.input) + " of " + std::to_string(op.parts);
  if (op.pre != 1)
    rest += " pre " + formatNumber(op.pre);
  if (op.post != 1)
    rest += " post " + formatNumber(op.post);
  return {text.definition(op.output), "sum_parts", std::move(rest)};
}
