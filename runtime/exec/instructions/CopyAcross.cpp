//===- CopyAcross.cpp - From one of a rank's memories to another ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

using namespace fsdp;

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::CopyAcrossT &op) {
  std::vector<Copies::Part> parts;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const at::Tensor &to = p.values[op.outputs[i]];
    if (to.nbytes() != 0)
      parts.push_back({to.mutable_data_ptr(),
                       p.values[op.inputs[i]].const_data_ptr(), to.nbytes()});
  }
  Copies::Slot slot = p.copies->reserve(op.stream);
  p.copySlots[op.future] = slot;
  return makeInstruction([copies = p.copies, slot, parts = std::move(parts)](
                             StepState &) { copies->start(slot, parts); });
}
