//===- Verify.h - Check every reference of a plan ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_VERIFY_H
#define FSDP_PLAN_VERIFY_H

#include "plan/plan_generated.h"

namespace fsdp {

/// Checks that every index, offset, byte range, enumerator and count of `plan`
/// holds, that values are defined before they are used and that each future is
/// waited for exactly once. Throws fsdp::Error (ArtifactCorrupted) with the
/// first thing that does not hold. A plan that passes cannot make the runtime
/// reach outside of the arena or of a table; whether it computes the right
/// thing is the compiler's business.
void verifyPlan(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_PLAN_VERIFY_H
