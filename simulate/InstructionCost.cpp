//===- InstructionCost.cpp - Seconds of one instruction -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/InstructionCost.h"

#include "plan/Instructions.h"
#include "plan/Messages.h"
#include "plan/Target.h"

#include <algorithm>

using namespace fsdp;

InstructionCosts::InstructionCosts(const plan::PlanT &plan,
                                   const Cluster &cluster,
                                   const EngineOptions &options)
    : plan(plan), cluster(cluster.withRanks(std::min(
                      int64_t(getWorldSize(plan)), cluster.ranksPerNode))),
      compute(this->cluster), collectives(this->cluster),
      processor(options.ranksPerCore > 0 ? options.ranksPerCore : 1) {}

InstructionCost InstructionCosts::cost(const plan::ProgramT &program,
                                       const plan::InstructionT &instruction) {
  InstructionCost result;
  LaneStep &step = result.step;
  auto start = [&](plan::Stream stream, uint32_t future,
                   const TransferCost &cost) {
    result.future = future;
    step = {LaneStep::start,
            uint8_t(stream),
            0,
            cost.seconds,
            {cost.processor * processor, cost.memory, cost.link, cost.network},
            cost.start,
            cost.beside,
            cost.lost};
    waits[future].handling = cost.finish;
  };
  if (const plan::WaitT *wait = instruction.body.AsWait()) {
    result.future = wait->future;
    if (auto found = waits.find(wait->future); found != waits.end())
      step = found->second;
    step.kind = LaneStep::wait;
  } else if (const plan::CopyAcrossT *copy = instruction.body.AsCopyAcross()) {
    for (uint32_t output : copy->outputs)
      result.bytes += program.values[output]->bytes;
    start(copy->stream, copy->future,
          collectives.copy(copy->to == plan::MemorySpace::host,
                           double(result.bytes), copy->outputs.size()));
  } else if (const plan::TransferT *transfer = transferOf(instruction)) {
    result.bytes = bytesOf(*transfer, plan, program);
    size_t pieces =
        cluster.network.staging
            ? countMessages(transfer->kind, membersOf(*transfer, plan, program))
            : transfer->inputs.size();
    start(transfer->stream, transfer->future,
          collectives.collective(transfer->kind, double(result.bytes),
                                 *plan.groups[transfer->group], pieces));
    waits[result.future].meets = plan.groups[transfer->group]->size > 1;
  } else {
    result.work = estimateWork(plan, program, instruction);
    step.seconds = compute.seconds(result.work);
    step.shares = {processor, compute.memoryShare(result.work), 0, 0};
  }
  if (cluster.profile)
    takeMeasured(program, instruction, result);
  return result;
}

void InstructionCosts::takeMeasured(const plan::ProgramT &program,
                                    const plan::InstructionT &instruction,
                                    InstructionCost &result) {
  if (described != &program) {
    activities.clear();
    std::vector<Activity> all = describeActivities(plan, program);
    for (size_t i = 0; i < all.size(); ++i)
      activities[program.instructions[i].get()] = std::move(all[i]);
    described = &program;
  }
  const Activity &activity = activities.at(&instruction);
  LaneStep &step = result.step;
  if (step.kind == LaneStep::start) {
    if (auto known = cluster.profile->transfer(activity)) {
      if (step.seconds > 0)
        for (double *each : {&step.beside, &step.lost})
          *each *= known->seconds / step.seconds;
      step.seconds = known->seconds;
      step.handling = known->start;
      waits[result.future].handling = known->finish;
    }
  } else if (step.kind == LaneStep::kernel &&
             result.work.kind != WorkKind::none) {
    if (auto known = cluster.profile->kernel(activity))
      step.seconds = *known;
  }
}
