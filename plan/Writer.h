//===- Writer.h - From a plan to an artifact --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_WRITER_H
#define FSDP_PLAN_WRITER_H

#include "plan/plan_generated.h"

#include <string>

namespace fsdp {

/// The artifact's bytes. Equal plans give equal bytes. Throws fsdp::Error if
/// the plan does not verify: no artifact that the reader would refuse is made.
std::string serializePlan(const plan::PlanT &plan);

/// Writes the artifact to `path`, wholly or not at all. Throws fsdp::Error.
void writePlan(const plan::PlanT &plan, const std::string &path);

} // namespace fsdp

#endif // FSDP_PLAN_WRITER_H
