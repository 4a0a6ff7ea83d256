//===- Accumulate.cpp - A running sum of gradients ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include <ATen/ops/add.h>

using namespace fsdp;

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::AccumulateT &op) {
  const at::Tensor &gradient = p.values[op.gradient], &into = p.values[op.into];
  // The plan puts the sum in the place of one of them.
  bool grows = p.room(op.output).first == p.room(op.into).first;
  p.values[op.output] = grows ? into : gradient;
  return makeComputation(
      p.memory, [gradient, into, output = p.values[op.output],
                 divisor = static_cast<int64_t>(op.divisor)]() mutable {
        at::add_out(output, into, gradient);
        if (divisor != 1)
          output.div_(divisor);
      });
}
