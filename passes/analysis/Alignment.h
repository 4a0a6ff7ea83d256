//===- Alignment.h - At which multiples buffers begin -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_ALIGNMENT_H
#define FSDP_PASSES_ANALYSIS_ALIGNMENT_H

#include <cstdint>

namespace fsdp {

/// What the region itself begins at a multiple of, and no buffer needs more:
/// LibTorch's vector kernels and the copies of the back ends like whole cache
/// lines.
inline constexpr int64_t kAlignment = 128;

/// To the next multiple of a power of two.
constexpr int64_t roundUp(int64_t bytes, int64_t power) {
  return (bytes + power - 1) & -power;
}

/// What a buffer's offset is a multiple of: from 8 KiB on kAlignment, below as
/// much less as keeps the gaps behind it under 1/64 of it, but at least the 16
/// bytes that any allocator gives.
constexpr int64_t getAlignment(int64_t bytes) {
  int64_t alignment = kAlignment;
  while (alignment > 16 && alignment * 64 > bytes)
    alignment /= 2;
  return alignment;
}

/// The room that a buffer takes.
constexpr int64_t alignUp(int64_t bytes) {
  return roundUp(bytes, getAlignment(bytes));
}

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_ALIGNMENT_H
