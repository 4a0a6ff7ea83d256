//===- Transfers.cpp - What ranks bring each other ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include "plan/Instructions.h"

using namespace fsdp;

namespace {

template <typename Member>
class Start final : public Instruction {
public:
  Start(Communicator &communicator, std::vector<Member> members,
        Combination combination, TransferLabel label, uint32_t future)
      : communicator(communicator), members(std::move(members)),
        combination(std::move(combination)), label(std::move(label)),
        future(future) {}

  void run(StepState &state) override {
    label.step = state.step;
    state.tickets[future] = communicator.start(transfer());
  }
  void rehearse(StepState &) override { communicator.rehearse(transfer()); }

private:
  Transfer transfer() const {
    return {std::span<const Member>(members), combination, label};
  }

  Communicator &communicator;
  const std::vector<Member> members;
  const Combination combination;
  TransferLabel label;
  const uint32_t future;
};

} // namespace

template <typename Member>
static std::unique_ptr<Instruction> prepareStart(Preparation &p,
                                                 const TransferStart &start,
                                                 std::vector<Member> members) {
  Communicator &communicator = p.transfers.get(start.group, start.stream);
  p.futures[start.future] = &communicator;
  Combination combination(start.reduction, start.pre, start.post);
  if (start.reduction == plan::Reduction::tree)
    combination.order = orderSums(p.plan, *p.plan.groups[start.group], p.rank);
  return std::make_unique<Start<Member>>(
      communicator, std::move(members), std::move(combination),
      TransferLabel{getName(start.kind), start.bucket, /*step=*/0,
                    static_cast<int32_t>(p.programIndex),
                    static_cast<int32_t>(p.instructionIndex)},
      start.future);
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::AllGatherT &op) {
  std::vector<GatherMember> members;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const at::Tensor &shard = p.values[op.inputs[i]];
    members.push_back({shard.data_ptr(),
                       p.values[op.outputs[i]].mutable_data_ptr(),
                       shard.nbytes()});
  }
  return prepareStart(p, startOf(op), std::move(members));
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::ReduceScatterT &op) {
  std::vector<ReduceMember> members;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const at::Tensor &shard = p.values[op.outputs[i]];
    members.push_back({p.values[op.inputs[i]].data_ptr(),
                       shard.mutable_data_ptr(),
                       static_cast<size_t>(shard.numel()),
                       p.program.values[op.inputs[i]]->dtype,
                       p.program.values[op.outputs[i]]->dtype});
  }
  return prepareStart(p, startOf(op), std::move(members));
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::AllReduceT &op) {
  std::vector<AllReduceMember> members;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const at::Tensor &data = p.values[op.outputs[i]] = p.values[op.inputs[i]];
    members.push_back({data.mutable_data_ptr(),
                       static_cast<size_t>(data.numel()),
                       p.program.values[op.inputs[i]]->dtype});
  }
  return prepareStart(p, startOf(op), std::move(members));
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::RotateT &op) {
  std::vector<RotateMember> members;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const at::Tensor &from = p.values[op.inputs[i]];
    members.push_back({from.data_ptr(),
                       p.values[op.outputs[i]].mutable_data_ptr(),
                       from.nbytes()});
  }
  return prepareStart(p, startOf(op), std::move(members));
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
