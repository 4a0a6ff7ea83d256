//===- Shard.cpp - A rank's rows of a replicated value --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include <algorithm>

using namespace fsdp;

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::ShardT &op) {
  const at::Tensor &full = p.values[op.input], &shard = p.values[op.output];
  int64_t position = groupPosition(*p.plan.groups[op.group], p.rank);
  int64_t count = shard.size(op.dim);
  int64_t first = std::min(position * count, full.size(op.dim));
  int64_t own = std::min(count, full.size(op.dim) - first);
  return makeComputation(p.memory,
                         [rows = full.narrow(op.dim, first, own),
                          to = shard.narrow(op.dim, 0, own),
                          padding = shard.narrow(op.dim, own, count - own)] {
                           to.copy_(rows);
                           padding.zero_();
                         });
}
