//===- Collectives.h - What ranks must agree on -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_COLLECTIVES_H
#define FSDP_PLAN_COLLECTIVES_H

#include "plan/plan_generated.h"

namespace fsdp {

/// A hash of the transfers that each program starts, in order: kind, bucket,
/// ranks, stream, reduction, types. Ranks that disagree on it would hang.
uint64_t hashCollectives(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_PLAN_COLLECTIVES_H
