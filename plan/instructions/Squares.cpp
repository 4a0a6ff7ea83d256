//===- Squares.cpp - Norms that do not depend on the cut ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

#include "support/ExactSum.h"

using namespace fsdp;
using plan::DType;

static bool isDigits(const plan::ValueT &value) {
  constexpr auto kDigits = static_cast<int64_t>(std::tuple_size_v<SumDigits>);
  return value.dtype == DType::i64 &&
         value.shape == std::vector<int64_t>{kDigits} && value.strides.empty();
}

void fsdp::listOperands(const plan::SquareSumT &op, Operands &operands) {
  operands.add(Access::read, op.inputs);
  operands.add(Access::define, op.output);
}

void fsdp::verify(const plan::SquareSumT &op, const ProgramCheck &check) {
  for (uint32_t input : op.inputs)
    if (DType dtype = check.value(input).dtype;
        dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16)
      check.refuse("sums squares of " + check.name(input) +
                   ", which is neither f32 nor a half");
  if (!isDigits(check.value(op.output)) || !check.isPlace(op.output))
    check.refuse("leaves a sum of squares in " + check.name(op.output) +
                 ", which does not hold its digits");
}

InstructionText fsdp::print(const plan::SquareSumT &op,
                            const ProgramText &text) {
  return {text.definition(op.output), "square_sum", " " + text.uses(op.inputs)};
}

void fsdp::listOperands(const plan::SquareRootT &op, Operands &operands) {
  operands.add(Access::read, op.inputs);
  operands.add(Access::define, op.output);
}

void fsdp::verify(const plan::SquareRootT &op, const ProgramCheck &check) {
  if (op.inputs.empty())
    check.refuse("has no sum of squares to take the root of");
  for (uint32_t input : op.inputs)
    if (!isDigits(check.value(input)))
      check.refuse("takes the root of " + check.name(input) +
                   ", which is no sum of squares");
  const plan::ValueT &output = check.value(op.output);
  if (output.dtype != DType::f32 || !output.shape.empty() ||
      !check.isPlace(op.output))
    check.refuse("leaves a root in " + check.name(op.output) +
                 ", which is no number");
}

InstructionText fsdp::print(const plan::SquareRootT &op,
                            const ProgramText &text) {
  return {text.definition(op.output), "square_root",
          " " + text.uses(op.inputs)};
}
