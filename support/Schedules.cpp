//===- Schedules.cpp - Shapes of a learning rate over time ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Schedules.h"

#include <cmath>
#include <numbers>

using namespace fsdp;

std::span<const ScheduleFacts> fsdp::getSchedules() {
  static constexpr ScheduleFacts all[] = {
#define FSDP_SCHEDULE(kind, decays, left)                                      \
  {ScheduleKind::kind, #kind, decays,                                          \
   []([[maybe_unused]] double p) -> double { return left; }},
#include "support/Schedules.def"
  };
  return all;
}

std::span<const ScheduleName> fsdp::getScheduleNames() {
  static constexpr ScheduleName all[] = {
#define FSDP_SCHEDULE_NAME(name, kind, warms)                                  \
  {#name, ScheduleKind::kind, warms},
#include "support/Schedules.def"
  };
  return all;
}
