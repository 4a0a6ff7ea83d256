//===- Files.h - Files that patterns name -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_FILES_H
#define FSDP_RUNTIME_DATA_FILES_H

#include <string>
#include <vector>

namespace fsdp {

/// The files that shell patterns of paths match: pattern by pattern, those of
/// one in the order of their bytes, each once. A path that exists is no
/// pattern. Throws fsdp::Error (FileNotReadable) if a pattern matches nothing.
std::vector<std::string> findFiles(const std::vector<std::string> &patterns);

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_FILES_H
