//===- Files.h - Reading and writing of fsdp-opt ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_FILES_H
#define FSDP_TOOLS_FSDPOPT_FILES_H

#include <string>
#include <string_view>

namespace fsdp {

/// Writes to `path` wholly or not at all, or into a stream (OutputPath.h); "-"
/// is stdout. Throws fsdp::Error (FileNotWritable).
void writeOutput(const std::string &path, std::string_view bytes);

/// Whether `writeOutput` could write there at all, but for permissions; empty
/// is fine. Throws fsdp::Error (FileNotWritable).
void checkOutput(const std::string &path);

/// The file's content; "-" is stdin. Throws fsdp::Error (FileNotReadable).
std::string readInput(const std::string &path);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_FILES_H
