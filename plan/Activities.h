//===- Activities.h - Instructions in words ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// As profiles, predictions and pictures show them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_ACTIVITIES_H
#define FSDP_PLAN_ACTIVITIES_H

#include "plan/plan_generated.h"

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
  /// "f32[4, 8], f32[8, 2] by [1, 8]" of what a kernel reads, with strides if
  /// it is not contiguous.
  std::string operands;
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
  uint64_t ranks = 1; ///< among which
  uint32_t future = 0;
};

/// By instruction. `program` is one of the plan's.
std::vector<Activity> describeActivities(const plan::PlanT &plan,
                                         const plan::ProgramT &program);

/// What computes at an instruction or next behind it: its module, or its name
/// where that is unknown; empty at the end.
std::string findPlace(const std::vector<Activity> &activities, size_t number);

} // namespace fsdp

#endif // FSDP_PLAN_ACTIVITIES_H
