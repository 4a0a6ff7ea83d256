//===- Copy.cpp - The bytes of another value ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

using namespace fsdp;

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::CopyT &op) {
  return makeComputation(p.memory, [from = p.values[op.from],
                                    to = p.values[op.to]] { to.copy_(from); });
}
