//===- Target.h - The device that a plan is for -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_TARGET_H
#define FSDP_PLAN_TARGET_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fsdp {

/// Ranks of the mesh.
inline uint64_t getWorldSize(const plan::PlanT &plan) {
  uint64_t size = 1;
  for (const auto &axis : plan.mesh)
    size *= axis->size;
  return size;
}

/// Whose rows a rank reads, and which numbers it draws: the same as the ranks
/// that compute a step together with it, which are adjacent.
inline uint64_t getDataRank(const plan::PlanT &plan, int rank) {
  return static_cast<uint64_t>(rank) * plan.data_parallel / getWorldSize(plan);
}

/// A plan that says nothing of it is.
inline bool isForHost(const plan::PlanT &plan) {
  return !plan.training || plan.training->device.empty() ||
         plan.training->device == "cpu";
}

/// Bytes of the arena in one of a rank's memories; 0 for one that the plan does
/// not use.
inline uint64_t peakOf(const plan::PlanT &plan, plan::MemorySpace memory) {
  const plan::MemoryT *use =
      memory == plan::MemorySpace::device ? plan.memory.get()
      : memory == plan::MemorySpace::host ? plan.host.get()
                                          : nullptr;
  return use ? use->peak : 0;
}

/// The most bytes that kernels take for temporaries, outside of the arena, and
/// that a GPU's libraries work in; nothing where that is unknown of some
/// operators before the rehearsal, or was not counted for a GPU.
inline std::optional<uint64_t> getScratchBound(const plan::PlanT &plan) {
  bool isCounted = isForHost(plan) || plan.memory->scratch_bound != 0;
  if (!isCounted || !plan.memory->scratch_unknown.empty())
    return std::nullopt;
  return plan.memory->scratch_bound;
}

/// "at most N", of the number that `format` gives, or what is unknown of it.
template <typename Format>
std::string describeScratch(const plan::PlanT &plan, Format format) {
  if (std::optional<uint64_t> bound = getScratchBound(plan))
    return "at most " + format(*bound);
  std::string text = "unknown until the warm-up";
  if (plan.memory->scratch_bound == 0)
    return text;
  std::string names;
  for (const std::string &name : plan.memory->scratch_unknown)
    names += (names.empty() ? "" : ", ") + name;
  return format(plan.memory->scratch_bound) + ", and what is " + text + " of " +
         names;
}

} // namespace fsdp

#endif // FSDP_PLAN_TARGET_H
