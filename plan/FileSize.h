//===- FileSize.h - How large an artifact may be ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_FILESIZE_H
#define FSDP_PLAN_FILESIZE_H

#include <cstdint>

namespace fsdp {

/// What FlatBuffers' offsets reach.
inline constexpr uint64_t kMaxArtifactBytes = INT32_MAX;

} // namespace fsdp

#endif // FSDP_PLAN_FILESIZE_H
