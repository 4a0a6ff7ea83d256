//===- Version.h - Versions of the artifact and its compiler ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_VERSION_H
#define FSDP_PLAN_VERSION_H

#include <cstdint>
#include <string_view>

namespace fsdp {

/// Raised by a change of plan.fbs that an older runtime would misread.
inline constexpr uint32_t kFormatVersion = 18;

/// The oldest format that this runtime still reads; raised where plan.fbs gives
/// up what older files have.
inline constexpr uint32_t kOldestFormatVersion = 14;

inline constexpr std::string_view kCompilerVersion = FSDP_VERSION;

} // namespace fsdp

#endif // FSDP_PLAN_VERSION_H
