//===- Schedules.h - Shapes of a learning rate over time --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_SCHEDULES_H
#define FSDP_SUPPORT_SCHEDULES_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fsdp {

/// A plan holds it as its number.
enum class ScheduleKind : uint8_t {
#define FSDP_SCHEDULE(kind, ...) kind,
#include "support/Schedules.def"
};

/// A row of Schedules.def.
struct ScheduleFacts {
  ScheduleKind kind;
  std::string_view name; ///< "cosine"
  bool decays;           ///< it ends at `total_steps`
  double (*left)(double p);
};
std::span<const ScheduleFacts> getSchedules();
inline const ScheduleFacts &getFacts(ScheduleKind kind) {
  return getSchedules()[size_t(kind)];
}

/// What transformers calls one.
struct ScheduleName {
  std::string_view name; ///< "constant_with_warmup"
  ScheduleKind kind;
  bool warms; ///< a warm-up has a meaning
};
std::span<const ScheduleName> getScheduleNames();

} // namespace fsdp

#endif // FSDP_SUPPORT_SCHEDULES_H
