//===- InstructionCost.h - Seconds of one instruction -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_INSTRUCTIONCOST_H
#define FSDP_SIMULATE_INSTRUCTIONCOST_H

#include "simulate/CollectiveModel.h"
#include "simulate/ComputeModel.h"
#include "simulate/Engine.h"

#include <map>
#include <unordered_map>

namespace fsdp {

/// What a lane is given for an instruction.
struct InstructionCost {
  LaneStep step;       ///< its transfer's number is the caller's to give
  uint32_t future = 0; ///< of starts and waits
  uint64_t bytes = 0;  ///< of starts, as plan/Traffic.h counts them
  Work work;           ///< of kernels; none: the instruction only names memory
};

/// Costs the instructions of one plan, which outlives it, on one cluster.
class InstructionCosts {
public:
  InstructionCosts(const plan::PlanT &plan, const Cluster &cluster,
                   const EngineOptions &options);

  /// Starts before their waits, programs one after another.
  InstructionCost cost(const plan::ProgramT &program,
                       const plan::InstructionT &instruction);

private:
  const plan::PlanT &plan;
  const Cluster cluster; ///< as the plan's ranks have it
  ComputeModel compute;
  CollectiveModel collectives;
  /// What the cluster's profile knows goes before the models.
  void takeMeasured(const plan::ProgramT &program,
                    const plan::InstructionT &instruction,
                    InstructionCost &result);

  double processor;                          ///< that one rank's kernels want
  std::map<uint32_t, LaneStep> waits;        ///< by future
  const plan::ProgramT *described = nullptr; ///< whose instructions these are:
  std::unordered_map<const plan::InstructionT *, Activity> activities;
};

} // namespace fsdp

#endif // FSDP_SIMULATE_INSTRUCTIONCOST_H
