//===- GuardedMemory.cpp - Memory that ends where it ends -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/kernels/GuardedMemory.h"

#include <new>

#include <sys/mman.h>
#include <unistd.h>

using namespace fsdp;

GuardedMemory::GuardedMemory(size_t bytes, bool atEnd) {
  auto page = size_t(sysconf(_SC_PAGESIZE));
  size_t inside = (bytes + page - 1) / page * page;
  mapped = inside + 2 * page;
  mapping =
      mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    throw std::bad_alloc();
  char *begin = static_cast<char *>(mapping) + page;
  if (inside && mprotect(begin, inside, PROT_READ | PROT_WRITE) != 0)
    throw std::bad_alloc();
  first = atEnd ? begin + (inside - bytes) : begin;
}

GuardedMemory::~GuardedMemory() { munmap(mapping, mapped); }
