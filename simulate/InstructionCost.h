//===- InstructionCost.h - Seconds of one instruction -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_INSTRUCTIONCOST_H
#define FSDP_SIMULATE_INSTRUCTIONCOST_H

#include "simulate/CollectiveModel.h"
#include "simulate/ComputeModel.h"
#include "simulate/Engine.h"

namespace fsdp {

/// What a lane is given for an instruction.
struct InstructionCost {
  LaneStep step;       ///< its transfer's number is the caller's to give
  uint32_t future = 0; ///< of starts and waits
  uint64_t bytes = 0;  ///< of starts, as plan/Traffic.h counts them
  Work work;           ///< of kernels; none: the instruction only names memory
};

/// Costs the instructions of one plan on one cluster; both outlive it.
class InstructionCosts {
public:
  InstructionCosts(const plan::PlanT &plan, const Cluster &cluster,
                   const EngineOptions &options);

  InstructionCost cost(const plan::ProgramT &program,
                       const plan::InstructionT &instruction) const;

private:
  const plan::PlanT &plan;
  ComputeModel compute;
  CollectiveModel collectives;
  double processor; ///< that one rank's kernels want
};

} // namespace fsdp

#endif // FSDP_SIMULATE_INSTRUCTIONCOST_H
