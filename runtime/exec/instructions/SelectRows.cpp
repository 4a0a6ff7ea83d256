//===- SelectRows.cpp - Rows that differ by rank --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

using namespace fsdp;

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::SelectRowsT &op) {
  const at::Tensor &all = p.values[op.input], &to = p.values[op.output];
  int64_t start = op.starts[groupPosition(*p.plan.groups[op.group], p.rank)];
  return makeComputation(p.memory,
                         [rows = all.narrow(op.dim, start, to.size(op.dim)),
                          to] { to.copy_(rows); });
}
