//===- VerifyAdapters.h - Whether adapters fit their bases ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_VERIFYADAPTERS_H
#define FSDP_PLAN_VERIFYADAPTERS_H

#include "plan/plan_generated.h"

namespace fsdp {

/// Of a plan whose states are valid: that what an export multiplies and adds up
/// fits, that each matrix is in one adapter alone, and that only adapters begin
/// with numbers of their bases. Throws fsdp::Error (ArtifactInvalid).
void verifyAdapters(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_PLAN_VERIFYADAPTERS_H
