//===- MappedBlocks.cpp - Memory that goes back when released -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/MappedBlocks.h"

#include <sys/mman.h>

using namespace fsdp;

void *MappedBlocks::allocate(size_t bytes) {
  void *pointer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (pointer == MAP_FAILED)
    return nullptr;
  std::scoped_lock lock(mutex);
  blocks.emplace(pointer, bytes);
  ++count;
  return pointer;
}

bool MappedBlocks::release(void *pointer) {
  if (count == 0)
    return false;
  std::scoped_lock lock(mutex);
  auto it = blocks.find(pointer);
  if (it == blocks.end())
    return false;
  munmap(pointer, it->second);
  blocks.erase(it);
  --count;
  return true;
}

size_t MappedBlocks::bytesOf(void *pointer) const {
  if (count == 0)
    return 0;
  std::scoped_lock lock(mutex);
  auto it = blocks.find(pointer);
  return it == blocks.end() ? 0 : it->second;
}
