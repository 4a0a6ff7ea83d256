//===- CodeImage.h - Code in memory that can be called ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_CODEIMAGE_H
#define FSDP_KERNELS_CODEIMAGE_H

#include "kernels/Kernel.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace fsdp {

/// Memory that is executed, mapped as long as this lives; it is written before
/// it can be executed, and never after.
class CodeImage {
public:
  /// A copy of `image` (Library.h). Throws fsdp::Error (KernelsUnusable) where
  /// the system lets no program do so.
  explicit CodeImage(std::string_view image);
  /// The file's first `bytes` bytes themselves; none if its file system lets
  /// nobody execute it, or it cannot be mapped.
  static std::optional<CodeImage> map(int descriptor, uint64_t bytes);

  CodeImage(CodeImage &&other) noexcept;
  ~CodeImage();
  CodeImage &operator=(CodeImage &&) = delete;

  std::string_view bytes() const {
    return {static_cast<const char *>(memory), size};
  }
  /// The image's first byte.
  KernelFunction function() const {
    return reinterpret_cast<KernelFunction>(memory);
  }
  /// Calls it. Sanitizers look for a function's type before its first byte,
  /// where there is nothing.
#if defined(__clang__)
  [[clang::no_sanitize("function")]]
#endif
  void run(void *const *operands, int64_t begin, int64_t end) const {
    function()(operands, begin, end);
  }

private:
  CodeImage(void *memory, size_t size) : memory(memory), size(size) {}

  void *memory;
  size_t size;
};

} // namespace fsdp

#endif // FSDP_KERNELS_CODEIMAGE_H
