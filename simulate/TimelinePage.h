//===- TimelinePage.h - The page around a prediction's data -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_TIMELINEPAGE_H
#define FSDP_SIMULATE_TIMELINEPAGE_H

namespace fsdp {

/// Timeline.html, which CMake writes into TimelinePage.cpp.
extern const char *const kTimelinePage;
/// What the data take the place of.
inline constexpr char kTimelineData[] = "/*DATA*/ null";

} // namespace fsdp

#endif // FSDP_SIMULATE_TIMELINEPAGE_H
