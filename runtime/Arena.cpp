//===- Arena.cpp - The one mapping that holds a rank's tensors ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Arena.h"

#include "runtime/support/Error.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <system_error>
#include <vector>

#include <sys/mman.h>

using namespace fsdp;

namespace {

/// Never destroyed: LibTorch frees memory until the process ends.
struct Registry {
  std::shared_mutex mutex;
  std::vector<const Arena *> arenas;
};

Registry &registry() {
  static Registry &instance = *new Registry;
  return instance;
}

constexpr uint64_t kPage = 4096;

} // namespace

Arena::Arena(uint64_t bytes)
    : size(bytes), mapped((bytes / kPage + 1) * kPage) {
  // The page beyond the end makes empty tensors at the end lie inside.
  void *memory =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorId::OutOfMemory,
                "a rank needs an arena of " + std::to_string(bytes) +
                    " bytes, which cannot be mapped: " +
                    std::error_code(errno, std::generic_category()).message() +
                    "; use more ranks or a machine with more memory");
  base = static_cast<char *>(memory);
  madvise(base, mapped, MADV_HUGEPAGE); // fewer misses in the page tables
  std::unique_lock lock(registry().mutex);
  registry().arenas.push_back(this);
}

Arena::~Arena() {
  {
    std::unique_lock lock(registry().mutex);
    std::erase(registry().arenas, this);
  }
  munmap(base, mapped);
}

void Arena::move(uint64_t offset, uint64_t bytes, char *to) {
  moved[offset] = {bytes, to};
}

char *Arena::at(uint64_t offset) const {
  auto behind = moved.upper_bound(offset);
  if (behind != moved.begin()) {
    const auto &[begin, part] = *std::prev(behind);
    if (offset - begin < part.bytes)
      return part.begin + (offset - begin);
  }
  return base + offset;
}

void Arena::clear() { madvise(base, mapped, MADV_DONTNEED); }

bool Arena::anyContains(const void *pointer) {
  std::shared_lock lock(registry().mutex);
  return std::any_of(
      registry().arenas.begin(), registry().arenas.end(),
      [&](const Arena *arena) { return arena->contains(pointer); });
}
