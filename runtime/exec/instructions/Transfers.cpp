//===- Transfers.cpp - What ranks bring each other ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include "plan/Instructions.h"

using namespace fsdp;

namespace {

class Start final : public Instruction {
public:
  Start(Communicator &communicator, TransferLabel label, Members members,
        Combination combination, uint32_t future)
      : communicator(communicator), label(label), members(std::move(members)),
        combination(std::move(combination)), future(future) {}

  void run(StepState &state) override {
    label.step = state.step;
    state.tickets[future] = communicator.start(transfer());
  }
  void rehearse(StepState &) override { communicator.rehearse(transfer()); }

private:
  Transfer transfer() const { return {label, members, combination}; }

  Communicator &communicator;
  TransferLabel label;
  const Members members;
  const Combination combination;
  const uint32_t future;
};

} // namespace

static Members prepareMembers(Preparation &p, const plan::TransferT &op) {
  const CollectiveFacts &facts = getFacts(op.kind);
  int64_t ranks = p.plan.groups[op.group]->size;
  Members members;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const at::Tensor &from = p.values[op.inputs[i]];
    at::Tensor &to = p.values[op.outputs[i]];
    if (facts.isInPlace)
      to = from;
    const at::Tensor &part = isWholeGiven(facts.whole) ? to : from;
    int64_t parts = facts.whole == Whole::both ? ranks : 1;
    members.push_back({from.data_ptr(), to.mutable_data_ptr(),
                       static_cast<size_t>(part.numel() / parts),
                       p.program.values[op.inputs[i]]->dtype,
                       p.program.values[op.outputs[i]]->dtype});
  }
  return members;
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::TransferT &op) {
  Communicator &communicator = p.transfers.get(op.group, op.stream);
  p.futures[op.future] = &communicator;
  Combination combination(op.reduction, op.pre, op.post);
  if (op.reduction == plan::Reduction::tree)
    combination.order = orderSums(p.plan, *p.plan.groups[op.group], p.rank);
  return std::make_unique<Start>(
      communicator,
      TransferLabel{op.kind, op.bucket, /*step=*/0,
                    static_cast<int32_t>(p.programIndex),
                    static_cast<int32_t>(p.instructionIndex), op.purpose},
      prepareMembers(p, op), std::move(combination), op.future);
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::WaitT &op) {
  if (std::optional<Copies::Slot> slot = p.copySlots[op.future])
    return makeInstruction(
        [copies = p.copies, slot = *slot](StepState &) { copies->wait(slot); });
  return makeInstruction([communicator = p.futures[op.future],
                          future = op.future](StepState &state) {
    communicator->wait(state.tickets[future]);
  });
}
