//===- Draw.cpp - Random numbers of a step --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "support/Distributions.h"

using namespace fsdp;
using plan::ValueT;

void fsdp::listOperands(const plan::DrawT &op, Operands &operands) {
  operands.add(Access::read, op.random);
  operands.add(Access::read, op.given);
  operands.add(Access::define, op.output);
}

static bool isInteger(plan::DType dtype) {
  return (dtype >= plan::DType::i64 && dtype <= plan::DType::bool_) ||
         (dtype >= plan::DType::u16 && dtype <= plan::DType::u64);
}

void fsdp::verify(const plan::DrawT &op, const ProgramCheck &check) {
  check.enumerator(op.distribution <= plan::Distribution::MAX);
  auto index = static_cast<size_t>(op.distribution);
  if (std::string problem =
          describeDrawProblem(index, op.numbers, op.given.size(), op.range);
      !problem.empty())
    check.refuse(problem);
  const ValueT &random = check.contiguous(op.random);
  if (random.dtype != plan::DType::i64 ||
      random.shape != std::vector<int64_t>{2})
    check.refuse("draws from " + check.name(op.random) +
                 ", which is no seed and offset");
  for (uint32_t given : op.given) {
    check.contiguous(given);
    check.sameType(given, op.output);
  }
  const ValueT &output = check.value(op.output);
  if (!check.isPlace(op.output))
    check.refuse("draws into " + check.name(op.output) + ", which is no place");
  if (!isFloat(output.dtype) &&
      !(kDistributions[index].isInteger && isInteger(output.dtype)))
    check.refuse("draws elements of another type into " +
                 check.name(op.output));
  uint64_t element = dtypeBytes(output.dtype);
  if (checkedExtent(output.shape, output.strides, element) !=
          checkedExtent(output.shape, {}, element) ||
      (!op.given.empty() && !output.strides.empty()))
    check.refuse("draws into " + check.name(op.output) + ", which has gaps");
}

InstructionText fsdp::print(const plan::DrawT &op, const ProgramText &text) {
  std::string rest;
  if (!op.numbers.empty())
    rest += " with [" + join(op.numbers, formatNumber) + "]";
  if (!op.range.empty())
    rest += " range " + toString(op.range);
  rest += " site " + std::to_string(op.site) + " from " + text.use(op.random);
  if (!op.given.empty())
    rest += " given " + text.uses(op.given);
  return {text.definition(op.output),
          std::string("draw ") + plan::EnumNameDistribution(op.distribution),
          std::move(rest)};
}
