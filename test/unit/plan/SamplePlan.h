//===- SamplePlan.h - A plan with every kind of instruction -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_PLAN_SAMPLEPLAN_H
#define FSDP_TEST_UNIT_PLAN_SAMPLEPLAN_H

#include "plan/plan_generated.h"

namespace fsdp::test {

/// One step of a 3x2 weight on 2 ranks (2 rows a rank, one of padding), which
/// makes no mathematical sense and uses everything that a plan can hold.
plan::PlanT samplePlan();

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PLAN_SAMPLEPLAN_H
