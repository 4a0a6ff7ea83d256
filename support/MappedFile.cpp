//===- MappedFile.cpp - Bytes of a file as memory -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/MappedFile.h"

#include "support/Error.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <sys/mman.h>

using namespace fsdp;

MappedFile::MappedFile(std::string path, std::string what,
                       const std::string &advice)
    : file(std::move(path), std::move(what), advice) {
  if (file.bytes() == 0)
    return;
  void *memory = mmap(nullptr, file.bytes(), PROT_READ, MAP_SHARED,
                      file.handle(), /*offset=*/0);
  if (memory == MAP_FAILED)
    throw Error(ErrorId::FileNotReadable,
                "'" + file.path() + "' cannot be mapped: " +
                    std::error_code(errno, std::generic_category()).message());
  mapping = static_cast<const char *>(memory);
}

MappedFile::~MappedFile() {
  if (mapping)
    munmap(const_cast<char *>(mapping), file.bytes());
}

void MappedFile::checkSize() const {
  if (uint64_t now = file.currentBytes(); now < file.bytes())
    throw Error(ErrorId::FileNotReadable,
                "'" + file.path() + "' has " + std::to_string(now) +
                    " bytes, and had " + std::to_string(file.bytes()) +
                    " when it was opened; leave files alone while they are "
                    "read");
}
