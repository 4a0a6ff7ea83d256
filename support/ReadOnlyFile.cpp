//===- ReadOnlyFile.cpp - Bytes of a file at given positions --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/ReadOnlyFile.h"

#include "support/Error.h"

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

/// "a pipe", or null for what can be read at any place.
static const char *describeKind(mode_t mode) {
  if (S_ISREG(mode))
    return nullptr;
  return S_ISFIFO(mode)   ? "a pipe"
         : S_ISSOCK(mode) ? "a socket"
         : S_ISDIR(mode)  ? "a folder"
                          : "a device";
}

ReadOnlyFile::ReadOnlyFile(std::string path, std::string what,
                           const std::string &advice)
    : file(std::move(path)), what(std::move(what)) {
  auto refuse = [&](ErrorId id, const std::string &reason) {
    if (descriptor >= 0)
      close(descriptor);
    throw Error(id, this->what + " '" + file + "' " + reason +
                        (advice.empty() ? "" : "; " + advice));
  };
  // Asked before, since opening alone may do something to a device; and again
  // behind it, since names may change.
  struct stat status;
  if (stat(file.c_str(), &status) != 0)
    refuse(ErrorId::FileNotReadable, "cannot be opened: " + describe(errno));
  if (!describeKind(status.st_mode)) {
    descriptor =
        open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
      refuse(ErrorId::FileNotReadable, "cannot be opened: " + describe(errno));
  }
  if (const char *kind = describeKind(status.st_mode))
    refuse(ErrorId::NotARegularFile,
           std::string("is ") + kind + "; expected a regular file");
  size = static_cast<uint64_t>(status.st_size);
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

std::string fsdp::readWholeFile(const std::string &path,
                                const std::string &what, uint64_t most) {
  ReadOnlyFile file(path, what);
  if (file.bytes() > most)
    throw Error(ErrorId::FileImplausible,
                what + " '" + path + "' has " + std::to_string(file.bytes()) +
                    " bytes; expected at most " + std::to_string(most));
  std::string bytes(file.bytes(), '\0');
  file.read(0, bytes.size(), bytes.data());
  return bytes;
}
