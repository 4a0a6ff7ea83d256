//===- SelectRows.cpp - Rows that differ by rank --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

using namespace fsdp;

void fsdp::listOperands(const plan::SelectRowsT &op, Operands &operands) {
  operands.add(Access::read, op.input);
  operands.add(Access::define, op.output);
}

void fsdp::verify(const plan::SelectRowsT &op, const ProgramCheck &check) {
  const plan::ValueT &input = check.value(op.input),
                     &output = check.value(op.output);
  if (output.place != plan::Place::slot || !output.strides.empty())
    check.refuse("selects rows into " + check.name(op.output) +
                 ", which is no slot");
  if (op.dim < 0 || size_t(op.dim) >= input.shape.size())
    check.refuse("selects rows of " + check.name(op.input) + " on dim " +
                 std::to_string(op.dim) + ", which it does not have");
  std::vector<int64_t> expected = input.shape;
  if (output.shape.size() == expected.size())
    expected[op.dim] = output.shape[op.dim];
  if (input.dtype != output.dtype || output.shape != expected)
    check.refuse("expects " + check.name(op.output) + " to be rows of " +
                 check.name(op.input) + " along dim " + std::to_string(op.dim));
  const plan::GroupT &group = check.group(op.group);
  if (op.starts.size() != group.size)
    check.refuse("expects one start for each of " + std::to_string(group.size) +
                 " ranks, found " + std::to_string(op.starts.size()));
  int64_t last = input.shape[op.dim] - output.shape[op.dim];
  for (int64_t start : op.starts)
    if (start < 0 || start > last)
      check.refuse("expects rows of " + check.name(op.input) + " from 0 to " +
                   std::to_string(last) + " on, found " +
                   std::to_string(start));
}

InstructionText fsdp::print(const plan::SelectRowsT &op,
                            const ProgramText &text) {
  return {
      text.definition(op.output), "select_rows",
      " " + text.use(op.input) + " dim " + std::to_string(op.dim) + " from [" +
          join(op.starts, [](int64_t start) { return std::to_string(start); }) +
          "]" + text.over(op.group)};
}
