//===- Files.cpp - Reading and writing of fsdp-opt ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/input/Files.h"

#include "support/AtomicFile.h"
#include "support/Error.h"
#include "support/OutputPath.h"
#include "support/ReadOnlyFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

using namespace fsdp;

namespace {
void writeStream(std::FILE *file, const std::string &name,
                 std::string_view bytes) {
  if (!file ||
      std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
      std::fflush(file) != 0)
    throw Error(ErrorId::FileNotWritable,
                "'" + name + "' cannot be written: " + std::strerror(errno));
}
} // namespace

void fsdp::checkOutput(const std::string &path) {
  if (!path.empty() && path != "-")
    findOutput(path);
}

void fsdp::writeOutput(const std::string &path, std::string_view bytes) {
  if (path == "-")
    return writeStream(stdout, "standard output", bytes);
  writeFileAtomically(path, bytes);
}

std::string fsdp::readInput(const std::string &path, const std::string &what,
                            uint64_t most) {
  if (path != "-")
    return readWholeFile(path, what, most);
  std::string bytes;
  char block[1 << 16];
  for (size_t count = sizeof block; count == sizeof block;) {
    count = std::fread(block, 1, sizeof block, stdin);
    bytes.append(block, count);
  }
  if (std::ferror(stdin))
    throw Error(ErrorId::FileNotReadable,
                "standard input cannot be read: " +
                    std::string(std::strerror(errno)));
  return bytes;
}
