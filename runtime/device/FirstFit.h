//===- FirstFit.h - Hands out parts of memory -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_FIRSTFIT_H
#define FSDP_RUNTIME_DEVICE_FIRSTFIT_H

#include <cstddef>
#include <span>
#include <vector>

namespace fsdp {

/// Which parts of memory that somebody else owns are taken. For a few at a
/// time.
class FirstFit {
public:
  using Bytes = std::span<char>;

  /// The first free part of `regions`, which lie apart; null: there is none of
  /// so many bytes. Begins at a multiple of `alignment`.
  char *take(std::span<const Bytes> regions, size_t bytes, size_t alignment);

  /// Whether what begins there was taken.
  bool giveBack(void *pointer);

  void clear() { taken.clear(); }
  /// By address.
  const std::vector<Bytes> &getTaken() const { return taken; }

private:
  std::vector<Bytes> taken;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_FIRSTFIT_H
