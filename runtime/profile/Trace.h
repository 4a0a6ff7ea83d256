//===- Trace.h - A profile as a file for Perfetto ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_PROFILE_TRACE_H
#define FSDP_RUNTIME_PROFILE_TRACE_H

#include "runtime/profile/Collect.h"
#include "runtime/profile/RecordedTransfers.h"
#include "runtime/profile/Summary.h"

#include <string>
#include <vector>

namespace fsdp {

/// Writes Chrome's trace event format, wholly or not at all; docs/Profile.md
/// says what stands where. Times are microseconds from the beginning of the
/// first profiled step on. `activities` by program. Throws fsdp::Error
/// (FileNotWritable).
void writeTrace(const std::string &path, const plan::PlanT &plan,
                const std::vector<std::vector<Activity>> &activities,
                const std::vector<RankProfile> &profiles,
                const ProfileSummary &summary);

} // namespace fsdp

#endif // FSDP_RUNTIME_PROFILE_TRACE_H
