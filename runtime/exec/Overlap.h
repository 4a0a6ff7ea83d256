//===- Overlap.h - Whether two places share memory --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_OVERLAP_H
#define FSDP_RUNTIME_EXEC_OVERLAP_H

#include <cstdint>

namespace fsdp {

/// Whether so many bytes at `a` and at `b` share one.
inline bool rangesOverlap(const char *a, uint64_t aBytes, const char *b,
                          uint64_t bBytes) {
  return a < b + bBytes && b < a + aBytes;
}

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_OVERLAP_H
