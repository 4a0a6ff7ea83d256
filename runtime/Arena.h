//===- Arena.h - The one mapping that holds a rank's tensors ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_ARENA_H
#define FSDP_RUNTIME_ARENA_H

#include <cstddef>
#include <cstdint>
#include <map>

namespace fsdp {

/// Page-aligned memory of a fixed size, zero at first. Pages are taken from the
/// machine when they are first touched. Every tensor of a plan lies in it, or
/// where a part of it was moved to, so it must outlive them.
class Arena {
public:
  /// Throws fsdp::Error (OutOfMemory).
  explicit Arena(uint64_t bytes);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Makes all of it zero again and gives its pages back. What was moved stays
  /// as it is.
  void clear();

  /// Lets `bytes` bytes from `offset` on lie at `to`, which belongs to somebody
  /// else; for parts that do not overlap, before anything lies there.
  void move(uint64_t offset, uint64_t bytes, char *to);

  /// Valid up to the end of a part, or the beginning of the next moved one.
  char *at(uint64_t offset) const;
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
  struct Part {
    uint64_t bytes;
    char *begin;
  };
  std::map<uint64_t, Part> moved; ///< by offset
};

} // namespace fsdp

#endif // FSDP_RUNTIME_ARENA_H
