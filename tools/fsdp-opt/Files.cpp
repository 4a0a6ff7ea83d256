//===- Files.cpp - Reading and writing of fsdp-opt ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/Files.h"

#include "runtime/support/AtomicFile.h"
#include "runtime/support/Error.h"
#include "runtime/support/OutputPath.h"

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

std::string fsdp::readInput(const std::string &path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> opened(nullptr, std::fclose);
  std::FILE *file = stdin;
  if (path != "-") {
    opened.reset(std::fopen(path.c_str(), "rb"));
    file = opened.get();
  }
  std::string bytes;
  char block[1 << 16];
  while (file) {
    size_t count = std::fread(block, 1, sizeof block, file);
    bytes.append(block, count);
    if (count < sizeof block)
      break;
  }
  if (!file || std::ferror(file))
    throw Error(ErrorId::FileNotReadable,
                "'" + path + "' cannot be read: " + std::strerror(errno));
  return bytes;
}
