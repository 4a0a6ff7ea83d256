//===- GuardedMemory.h - Memory that ends where it ends ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_KERNELS_GUARDEDMEMORY_H
#define FSDP_TEST_UNIT_KERNELS_GUARDEDMEMORY_H

#include <cstddef>

namespace fsdp {

/// Zeros, which end (`atEnd`) or begin at a page that ends the process that
/// touches it, as does what is beyond the other pages.
class GuardedMemory {
public:
  GuardedMemory(size_t bytes, bool atEnd);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;

  void *data() const { return first; }

private:
  void *mapping, *first;
  size_t mapped;
};

} // namespace fsdp

#endif // FSDP_TEST_UNIT_KERNELS_GUARDEDMEMORY_H
