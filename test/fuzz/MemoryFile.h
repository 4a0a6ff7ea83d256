//===- MemoryFile.h - Bytes that can be opened ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_FUZZ_MEMORYFILE_H
#define FSDP_TEST_FUZZ_MEMORYFILE_H

#include <string>
#include <string_view>

namespace fsdp::fuzz {

/// A file in memory, for as long as the object lives.
class MemoryFile {
public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  /// Can be opened by this process.
  const std::string &path() const { return name; }

private:
  int descriptor;
  std::string name;
};

} // namespace fsdp::fuzz

#endif // FSDP_TEST_FUZZ_MEMORYFILE_H
