//===- Visit.h - A function for each kind of instruction --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_VISIT_H
#define FSDP_PLAN_VISIT_H

#include "plan/plan_generated.h"

namespace fsdp {

/// Calls `visit` with what the instruction is, `const plan::CallT &` and so on.
/// Returns false if it is of no known kind.
template <typename Visit>
bool visitBody(const plan::InstructionT &instruction, Visit visit) {
  const plan::BodyUnion &body = instruction.body;
  switch (body.type) {
#define FSDP_INSTRUCTION(kind)                                                 \
  case plan::Body::kind:                                                       \
    visit(*body.As##kind());                                                   \
    return true;
    FSDP_INSTRUCTION(Call)
    FSDP_INSTRUCTION(AllGather)
    FSDP_INSTRUCTION(ReduceScatter)
    FSDP_INSTRUCTION(AllReduce)
    FSDP_INSTRUCTION(Wait)
    FSDP_INSTRUCTION(Free)
    FSDP_INSTRUCTION(ZeroPadding)
    FSDP_INSTRUCTION(Shard)
    FSDP_INSTRUCTION(Adam)
    FSDP_INSTRUCTION(Sgd)
    FSDP_INSTRUCTION(Copy)
    FSDP_INSTRUCTION(Draw)
    FSDP_INSTRUCTION(Accumulate)
    FSDP_INSTRUCTION(PackTensors)
#undef FSDP_INSTRUCTION
  case plan::Body::NONE:
    break;
  }
  return false;
}

} // namespace fsdp

#endif // FSDP_PLAN_VISIT_H
