//===- Memory.cpp - The host's memory -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/Memory.h"

#include "support/Error.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include <sys/mman.h>

using namespace fsdp;

void HostReachableMemory::write(char *to, const void *from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
}
void HostReachableMemory::read(void *to, const char *from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
}
void HostReachableMemory::fill(char *to, unsigned char byte, uint64_t bytes) {
  std::memset(to, byte, bytes);
}

namespace {

class HostMemory final : public HostReachableMemory {
public:
  char *map(uint64_t bytes) override {
    void *memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
    if (memory == MAP_FAILED)
      throw Error(
          ErrorId::OutOfMemory,
          "a rank needs an arena of " + std::to_string(bytes) +
              " bytes, which cannot be mapped: " +
              std::error_code(errno, std::generic_category()).message() +
              "; use more ranks or a machine with more memory");
    madvise(memory, bytes, MADV_HUGEPAGE); // fewer misses in the page tables
    return static_cast<char *>(memory);
  }
  void unmap(char *begin, uint64_t bytes) noexcept override {
    munmap(begin, bytes);
  }

  void clear(char *begin, uint64_t bytes) override {
    madvise(begin, bytes, MADV_DONTNEED);
  }
};

} // namespace

Memory &fsdp::hostMemory() {
  static HostMemory memory;
  return memory;
}
