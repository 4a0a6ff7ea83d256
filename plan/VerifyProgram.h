//===- VerifyProgram.h - Check one program of a plan ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_VERIFYPROGRAM_H
#define FSDP_PLAN_VERIFYPROGRAM_H

#include "plan/plan_generated.h"

#include <string>

namespace fsdp {

/// Throws fsdp::Error (ArtifactCorrupted): `where` and what does not hold.
[[noreturn]] void refusePlan(const std::string &where, const std::string &what);

/// Checks a program of `plan`, whose other tables have been checked. Throws
/// fsdp::Error.
void verifyProgram(const plan::PlanT &plan, const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_PLAN_VERIFYPROGRAM_H
