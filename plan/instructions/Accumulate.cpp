//===- Accumulate.cpp - A running sum of gradients ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"
#include "plan/ProgramText.h"

#include "plan/DType.h"
#include "plan/Grains.h"

using namespace fsdp;
using plan::ValueT;

void fsdp::listOperands(const plan::AccumulateT &op, Operands &operands) {
  operands.add(Access::read, op.gradient);
  operands.add(Access::read, op.into);
  operands.add(Access::overwrite, op.output);
}

/// A step's partial sums are as many as its micro-batches leave.
static void verifyTree(const plan::AccumulateT &op, const ProgramCheck &check) {
  const ValueT &gradient = check.value(op.gradient);
  const ValueT &into = check.value(op.into), &output = check.value(op.output);
  const plan::TrainingT *training = check.plan.training.get();
  bool isLast = check.program.part == plan::StepPart::last;
  if (!training || training->grains == 0 ||
      check.program.part == plan::StepPart::whole)
    check.refuse("adds to sums of grains, which the step has none of");
  if (into.shape[0] !=
          countPartialSums(training->gradient_accumulation_steps) ||
      gradient.dtype != into.dtype || output.dtype != into.dtype ||
      output.shape != (isLast ? gradient : into).shape)
    check.refuse("does not add " + check.name(op.gradient) +
                 " to the partial sums of grains in " + check.name(op.into));
}

void fsdp::verify(const plan::AccumulateT &op, const ProgramCheck &check) {
  const ValueT &gradient = check.contiguous(op.gradient);
  const ValueT &into = check.contiguous(op.into);
  const ValueT &output = check.value(op.output);
  std::vector<int64_t> summed = into.shape;
  bool isLast = op.tree && output.shape == gradient.shape;
  if (op.tree && !summed.empty())
    summed.erase(summed.begin());
  if (!isFloat(gradient.dtype) || !isFloat(into.dtype) ||
      gradient.shape != summed || summed.size() + op.tree != into.shape.size())
    check.refuse("adds " + check.name(op.gradient) + " to " +
                 check.name(op.into) +
                 ", which has another shape or is no number");
  if (op.tree)
    verifyTree(op, check);
  else
    check.sameType(op.into, op.output);
  // In place of one of the two.
  size_t base = check.root(op.output);
  uint32_t place = base == check.root(op.into) ? op.into : op.gradient;
  if (output.place != plan::Place::view || base != check.root(place) ||
      !output.strides.empty())
    check.refuse("leaves the sum at " + check.name(op.output) +
                 ", which is no view of what is summed");
  if (!isLast || place == op.gradient)
    check.sameType(place, op.output);
  if (op.divisor < 1)
    check.refuse("divides a sum by 0");
}

InstructionText fsdp::print(const plan::AccumulateT &op,
                            const ProgramText &text) {
  return {text.definition(op.output), "accumulate",
          " " + text.use(op.gradient) + " into " + text.use(op.into) +
              (op.tree ? " tree" : "") +
              (op.divisor == 1 ? "" : " divide " + std::to_string(op.divisor))};
}
