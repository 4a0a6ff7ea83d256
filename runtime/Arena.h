//===- Arena.h - The one mapping that holds a rank's tensors ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_ARENA_H
#define FSDP_RUNTIME_ARENA_H

#include <cstddef>
#include <cstdint>

namespace fsdp {

/// Page-aligned memory of a fixed size, zero at first. Pages are taken from the
/// machine when they are first touched. Every tensor of a plan lies in it, so
/// it must outlive them.
class Arena {
public:
  /// Throws fsdp::Error (OutOfMemory).
  explicit Arena(uint64_t bytes);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Makes all of it zero again and gives its pages back.
  void clear();

  char *at(uint64_t offset) const { return base + offset; }
  uint64_t bytes() const { return size; }
  bool contains(const void *pointer) const {
    auto p = static_cast<const char *>(pointer);
    return p >= base && p < base + mapped;
  }

  /// Whether any arena of the process contains `pointer`. Thread-safe.
  static bool anyContains(const void *pointer);

private:
  char *base = nullptr;
  uint64_t size, mapped;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_ARENA_H
