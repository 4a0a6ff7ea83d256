//===- Activities.h - What the instructions of a profile are ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_PROFILE_ACTIVITIES_H
#define FSDP_RUNTIME_PROFILE_ACTIVITIES_H

#include "plan/plan_generated.h"
#include "runtime/profile/Collect.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// One instruction in words.
struct Activity {
  enum class Kind : uint8_t {
    compute, ///< anything that works on this rank's memory alone
    start,   ///< of a transfer
    wait     ///< for a transfer
  };
  Kind kind = Kind::compute;
  std::string name;   ///< "aten::mm", "adamw", "all_gather.start layers.0"
  std::string module; ///< "layers.0.attn"; empty: unknown
  std::string source; ///< "model.py:7"; empty: unknown
  std::string result; ///< "f32[4, 8]" of what it makes; empty: nothing, or many
  /// That a transfer moves, or whose parameters a kernel reads or updates;
  /// empty: none.
  std::string bucket;

  // Of starts and waits:
  std::string collective; ///< "all_gather"
  std::string group;      ///< "dp_shard"
  plan::Stream stream = plan::Stream::compute;
  /// What the rank receives in an all-gather and sends into a reduction,
  /// padding included.
  uint64_t bytes = 0;
  uint32_t future = 0;
};

/// By instruction. `program` is one of the plan's.
std::vector<Activity> describeActivities(const plan::PlanT &plan,
                                         const plan::ProgramT &program);

/// A transfer of a rank, by the places of its two records.
struct RecordedTransfer {
  size_t start, wait;
};

/// Those of which both records are there, in the order of their starts.
/// `activities` by program.
std::vector<RecordedTransfer>
findTransfers(const std::vector<std::vector<Activity>> &activities,
              const RankProfile &profile);

} // namespace fsdp

#endif // FSDP_RUNTIME_PROFILE_ACTIVITIES_H
