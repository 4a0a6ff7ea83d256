//===- CodeCache.h - Code that was made before ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files in $XDG_CACHE_HOME/fsdp-opt/kernels, or that of ~/.cache. Nobody but
// the user may be able to reach them: else they are not used.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_CODECACHE_H
#define FSDP_KERNELS_CODECACHE_H

#include "kernels/CodeImage.h"

#include <optional>
#include <string>
#include <string_view>

namespace fsdp {

class CodeCache {
public:
  /// Finds or makes the folder; where that fails the cache is empty, and
  /// remains so.
  CodeCache();

  /// The code that was made for `request`, all of which is compared; none if
  /// there is none, or if its file is damaged.
  std::optional<CodeImage> find(std::string_view request) const;
  /// The same of code that is text, and that nothing here executes.
  std::optional<std::string> findText(std::string_view request) const;
  /// Keeps it for later; a disk that is full, or the like, is no error.
  void keep(std::string_view request, std::string_view image) const;

private:
  std::string pathOf(std::string_view request) const;
  template <typename Read>
  auto open(std::string_view request, Read read) const;

  std::string folder; ///< empty: there is none
};

} // namespace fsdp

#endif // FSDP_KERNELS_CODECACHE_H
