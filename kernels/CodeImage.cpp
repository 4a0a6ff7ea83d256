//===- CodeImage.cpp - Code in memory that can be called ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/CodeImage.h"

#include "support/Error.h"

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <sys/mman.h>

using namespace fsdp;

[[noreturn]] static void fail(int number) {
  throw Error(ErrorId::KernelsUnusable,
              "code for kernels cannot be executed: " +
                  std::error_code(number, std::generic_category()).message());
}

CodeImage::CodeImage(std::string_view image)
    : memory(mmap(nullptr, image.size(), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
      size(image.size()) {
  if (memory == MAP_FAILED)
    fail(errno);
  image.copy(static_cast<char *>(memory), size);
  __builtin___clear_cache(static_cast<char *>(memory),
                          static_cast<char *>(memory) + size);
  if (mprotect(memory, size, PROT_READ | PROT_EXEC) != 0) {
    int number = errno;
    munmap(memory, size);
    fail(number);
  }
}

std::optional<CodeImage> CodeImage::map(int descriptor, uint64_t bytes) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE,
                      descriptor, /*offset=*/0);
  if (memory == MAP_FAILED)
    return std::nullopt;
  return CodeImage(memory, bytes);
}

CodeImage::CodeImage(CodeImage &&other) noexcept
    : memory(std::exchange(other.memory, nullptr)), size(other.size) {}

CodeImage::~CodeImage() {
  if (memory)
    munmap(memory, size);
}
