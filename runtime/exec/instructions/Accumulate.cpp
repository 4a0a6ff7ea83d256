//===- Accumulate.cpp - A running sum of gradients ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include "plan/Grains.h"
#include "plan/Target.h"
#include "runtime/optimize/GrainSums.h"

#include <ATen/ops/add.h>

using namespace fsdp;

/// Of a step's grains.
static std::unique_ptr<Instruction> prepareTree(const Preparation &p,
                                                const plan::AccumulateT &op) {
  uint64_t grains = dealGrains(p.plan)[getDataRank(p.plan, p.rank)].count;
  bool isLast = p.program.part == plan::StepPart::last;
  return makeComputation(
      p.memory, [gradient = p.values[op.gradient], into = p.values[op.into],
                 output = isLast ? p.values[op.output] : at::Tensor(), grains,
                 divisor = static_cast<double>(op.divisor)](StepState &state) {
        // A rank with fewer grains than others takes part with nothing.
        bool isIdle = state.microBatch >= grains;
        auto number = static_cast<uint32_t>(state.microBatch);
        if (output.defined())
          endGrains(into, countKept(number), gradient, isIdle, divisor, output);
        else
          addGrain(into, number, gradient, isIdle);
      });
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::AccumulateT &op) {
  const at::Tensor &gradient = p.values[op.gradient], &into = p.values[op.into];
  // The plan puts the sum in the place of one of them.
  bool grows = p.room(op.output).first == p.room(op.into).first;
  if (op.tree) {
    bool isLast = p.program.part == plan::StepPart::last;
    p.values[op.output] = !grows ? gradient : isLast ? into.select(0, 0) : into;
    return prepareTree(p, op);
  }
  p.values[op.output] = grows ? into : gradient;
  return makeComputation(
      p.memory, [gradient, into, output = p.values[op.output],
                 divisor = static_cast<int64_t>(op.divisor)]() mutable {
        at::add_out(output, into, gradient);
        if (divisor != 1)
          output.div_(divisor);
      });
}
