//===- Pattern.h - Shell patterns of names ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_PATTERN_H
#define FSDP_SUPPORT_PATTERN_H

#include <fnmatch.h>

#include <string>

namespace fsdp {

/// `*` stands for any characters, dots too, `?` for one, `[a-z]` for one of
/// these: what users write for names of parameters and modules.
inline bool matchesPattern(const std::string &pattern,
                           const std::string &name) {
  return fnmatch(pattern.c_str(), name.c_str(), /*flags=*/0) == 0;
}

} // namespace fsdp

#endif // FSDP_SUPPORT_PATTERN_H
