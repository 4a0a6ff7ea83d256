//===- InstructionCost.cpp - Seconds of one instruction -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/InstructionCost.h"

#include "plan/Instructions.h"

using namespace fsdp;

InstructionCosts::InstructionCosts(const plan::PlanT &plan,
                                   const Cluster &cluster,
                                   const EngineOptions &options)
    : plan(plan), compute(cluster), collectives(cluster),
      processor(options.ranksPerCore > 0 ? options.ranksPerCore : 1) {}

InstructionCost
InstructionCosts::cost(const plan::ProgramT &program,
                       const plan::InstructionT &instruction) const {
  InstructionCost result;
  LaneStep &step = result.step;
  auto start = [&](plan::Stream stream, uint32_t future,
                   const TransferCost &cost) {
    result.future = future;
    step = {LaneStep::start,
            uint8_t(stream),
            0,
            cost.seconds,
            {cost.processor * processor, cost.memory, cost.link, cost.network}};
  };
  if (const plan::WaitT *wait = instruction.body.AsWait()) {
    step.kind = LaneStep::wait;
    result.future = wait->future;
  } else if (const plan::CopyAcrossT *copy = instruction.body.AsCopyAcross()) {
    for (uint32_t output : copy->outputs)
      result.bytes += program.values[output]->bytes;
    start(copy->stream, copy->future,
          collectives.copy(copy->to == plan::MemorySpace::host,
                           double(result.bytes), copy->outputs.size()));
  } else if (std::optional<TransferStart> transfer = startOf(instruction)) {
    result.bytes = transfer->bytes(plan, program);
    start(transfer->stream, transfer->future,
          collectives.collective(transfer->kind, double(result.bytes),
                                 *plan.groups[transfer->group]));
  } else {
    result.work = estimateWork(plan, program, instruction);
    step.seconds = compute.seconds(result.work);
    step.shares = {processor, compute.memoryShare(result.work), 0, 0};
  }
  return result;
}
