//===- Files.h - Reading and writing of fsdp-opt ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_INPUT_FILES_H
#define FSDP_TOOLS_FSDPOPT_INPUT_FILES_H

#include <cstdint>
#include <string>
#include <string_view>

namespace fsdp {

/// Writes to `path` wholly or not at all, or into a stream (OutputPath.h); "-"
/// is stdout. Throws fsdp::Error (FileNotWritable).
void writeOutput(const std::string &path, std::string_view bytes);

/// Whether `writeOutput` could write there at all, but for permissions; empty
/// is fine. Throws fsdp::Error (FileNotWritable).
void checkOutput(const std::string &path);

/// Whether a name ends so and is more than that.
inline bool hasSuffix(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() && name.ends_with(suffix);
}

/// A config is some kilobytes; a program of MLIR some hundred megabytes.
inline constexpr uint64_t kMaxConfigBytes = 16 << 20;
inline constexpr uint64_t kMaxProgramBytes = 2ull << 30;

/// The content of a regular file, which is `what` ("the config"), or of stdin
/// if `path` is "-". Throws fsdp::Error: FileNotReadable, NotARegularFile,
/// FileImplausible if it has more than `most` bytes.
std::string readInput(const std::string &path, const std::string &what,
                      uint64_t most);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_INPUT_FILES_H
