//===- FirstFit.cpp - Hands out parts of memory ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/FirstFit.h"

#include <algorithm>
#include <cstdint>

using namespace fsdp;

static uintptr_t alignUp(const void *pointer, size_t alignment) {
  return (reinterpret_cast<uintptr_t>(pointer) + alignment - 1) / alignment *
         alignment;
}

char *FirstFit::take(std::span<const Bytes> regions, size_t bytes,
                     size_t alignment) {
  for (Bytes region : regions) {
    auto end = reinterpret_cast<uintptr_t>(region.data() + region.size());
    uintptr_t begin = alignUp(region.data(), alignment);
    for (Bytes other : taken) {
      auto at = reinterpret_cast<uintptr_t>(other.data());
      if (at + other.size() <= begin)
        continue;
      if (begin + bytes <= at)
        break;
      begin = alignUp(other.data() + other.size(), alignment);
    }
    if (begin > end || bytes > end - begin)
      continue;
    Bytes found(reinterpret_cast<char *>(begin), bytes);
    taken.insert(std::ranges::upper_bound(taken, found.data(), {},
                                          [](Bytes b) { return b.data(); }),
                 found);
    return found.data();
  }
  return nullptr;
}

bool FirstFit::giveBack(void *pointer) {
  auto found = std::ranges::find(taken, pointer,
                                 [](Bytes b) -> void * { return b.data(); });
  if (found == taken.end())
    return false;
  taken.erase(found);
  return true;
}
