//===- VerifySteps.h - Programs make up a step ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_VERIFYSTEPS_H
#define FSDP_PLAN_VERIFYSTEPS_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <set>

namespace fsdp {

// Parts of verifyPlan, which throw as it does.
/// Inputs of a program by index.
std::set<int32_t> inputsOf(const plan::ProgramT &program);
/// A step of several micro-batches has all its parts at the same shapes.
void verifyParts(const plan::PlanT &plan);
/// One node of the tree a rank, and as many micro-batches as the greatest has.
void verifyGrains(const plan::PlanT &plan);
/// Validation reads what training reads, and changes nothing.
void verifyValidation(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_PLAN_VERIFYSTEPS_H
