//===- ReadOnlyFile.cpp - Bytes of a file at given positions --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/support/ReadOnlyFile.h"

#include "runtime/support/Error.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp;

static std::string describe(int reason) {
  return std::error_code(reason, std::generic_category()).message();
}

ReadOnlyFile::ReadOnlyFile(std::string path, std::string what,
                           const std::string &advice)
    : file(std::move(path)), what(std::move(what)) {
  descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (descriptor >= 0 && fstat(descriptor, &status) == 0 &&
      S_ISREG(status.st_mode)) {
    size = static_cast<uint64_t>(status.st_size);
    return;
  }
  int reason = descriptor < 0 ? errno : EISDIR;
  if (descriptor >= 0)
    close(descriptor);
  throw Error(ErrorId::FileNotReadable,
              this->what + " '" + file + "' cannot be opened: " +
                  describe(reason) + (advice.empty() ? "" : "; " + advice));
}

ReadOnlyFile::~ReadOnlyFile() { close(descriptor); }

uint64_t ReadOnlyFile::currentBytes() const {
  struct stat status;
  return fstat(descriptor, &status) == 0 ? static_cast<uint64_t>(status.st_size)
                                         : 0;
}

void ReadOnlyFile::read(uint64_t offset, uint64_t bytes, void *to) const {
  auto *out = static_cast<char *>(to);
  while (bytes != 0) {
    ssize_t count = pread(descriptor, out, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      throw Error(ErrorId::FileNotReadable,
                  what + " '" + file + "' cannot be read at byte " +
                      std::to_string(offset) + ": " +
                      (count == 0 ? "it ends there" : describe(errno)));
    out += count;
    offset += static_cast<uint64_t>(count);
    bytes -= static_cast<uint64_t>(count);
  }
}
